"""Compiled models in pickles: what a file of them holds, so that other processes can run them."""

from __future__ import annotations

import copyreg
import os
from pathlib import Path
from typing import Any

from afterglow.driver.loading import load_named
from afterglow.runtime import CompiledModel
from afterglow.runtime.native.machine import usable_cores


def _reduced(model: CompiledModel) -> tuple[Any, ...]:
    """How pickle rebuilds a model; it is refused if it cannot be saved."""
    data = model.saved_bytes()
    executable = model.compiled.executable
    threads, streams = (getattr(executable, name, None) for name in ("threads", "streams"))
    return restore_pickled, (data, None if threads == usable_cores() else threads, streams or 1)


def restore_pickled(data: bytes, threads: int | None, streams: int = 1) -> CompiledModel:
    """The model that was pickled; its code and constants lie in memory of the system's."""
    descriptor = os.memfd_create("pickled model")
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        path = Path(f"/proc/self/fd/{descriptor}")
        return load_named(path, "the pickle", threads=threads, streams=streams)


copyreg.pickle(CompiledModel, _reduced)
