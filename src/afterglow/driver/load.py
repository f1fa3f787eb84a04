"""`load`: the public way in for models that were saved."""

from __future__ import annotations

from pathlib import Path

from afterglow.driver import pickling  # noqa: F401  tells pickle about compiled models
from afterglow.driver.loading import load_named
from afterglow.runtime import CompiledModel


def load(
    path: str | Path, *, threads: int | None = None, cache: bool | str | Path = True
) -> CompiledModel:
    """Load a model that was saved, to be run by a number of threads: by default as many as may be.

    Code and constants are mapped from the file, and shared by all processes that do the same. The
    shared library of a bundle is loaded too; it runs on the calling thread. Where shapes depend on
    data, more is compiled as the model runs: `cache` is as for `compile`.
    """
    return load_named(path, None, threads=threads, cache=cache)
