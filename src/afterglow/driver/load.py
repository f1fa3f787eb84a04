"""`load`: the public way in for models that were saved."""

from __future__ import annotations

from pathlib import Path

from afterglow.driver.environment import perf_map_by_default
from afterglow.runtime import CompiledModel, load_model


def load(
    path: str | Path, *, threads: int | None = None, cache: bool | str | Path = True
) -> CompiledModel:
    """Load a model that was saved, to be run by so many threads: by default as many as may be.

    Code and constants are mapped from the file, and shared by all processes that do the same. The
    shared library of a bundle is loaded too; it runs on the calling thread. Where data decide
    shapes, more is compiled as the model runs: `cache` is as for `compile`.
    """
    return load_model(path, threads=threads, perf_map=perf_map_by_default(), cache=cache)
