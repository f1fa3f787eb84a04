"""Loading saved models on the devices of this machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from afterglow.driver.devices import find_device
from afterglow.driver.environment import perf_map_by_default
from afterglow.runtime import CompiledModel, load_model
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.saved_versions import Resumer
from afterglow.runtime.threads import checked_streams, checked_threads, threads_of_stream
from afterglow.runtime.version import SourceLeft
from afterglow.support.packages import needed_for


def load_named(
    path: str | Path,
    name: str | None,
    *,
    threads: int | None = None,
    streams: int = 1,
    cache: bool | str | Path = True,
) -> CompiledModel:
    """Load a model as `load` does; errors call it by its name, if it has one."""
    number = checked_streams(streams)
    threads = threads_of_stream(checked_threads(threads), number)
    options = LoadOptions(threads, perf_map_by_default(), number)
    resume = partial(_resume, options=options, cache=cache)
    return load_model(path, find_device, options, resume, name=name)


def _resume(source: SourceLeft, options: LoadOptions, cache: Any) -> Resumer:
    """What compiles the rest of a model."""
    with needed_for("a model with data-dependent shapes, which is compiled as it runs,"):
        # here, because no other saved model needs the compiler to be imported
        from afterglow.driver.resume import ResumedModel  # noqa: PLC0415

        return ResumedModel(source, options, cache=cache)
