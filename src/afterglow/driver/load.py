"""`load`, the public entry point for saved models."""

from __future__ import annotations

from pathlib import Path

from afterglow.driver import pickling  # noqa: F401  tells pickle about compiled models
from afterglow.driver.loading import load_named
from afterglow.runtime import CompiledModel


def load(
    path: str | Path,
    *,
    threads: int | None = None,
    streams: int = 1,
    cache: bool | str | Path = True,
) -> CompiledModel:
    """Load a saved model (FILE.agc), or the shared library of a bundle.

    Code and constants are mapped from the file, and shared by all processes that load it.
    `threads` is the number of threads, by default all cores; the library of a bundle runs on the
    calling thread. A model with data-dependent shapes is compiled further as it runs. `streams` and
    `cache` are as for `compile`.
    """
    return load_named(path, None, threads=threads, streams=streams, cache=cache)
