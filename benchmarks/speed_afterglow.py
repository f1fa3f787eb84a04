"""Run a compiled model of Afterglow: see `speed_worker`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import afterglow as ag
from benchmarks.speed_worker import Feed, main


def load(model: Path, feed: Feed, threads: int) -> Callable[[], object]:
    """Runs of a compiled model."""
    compiled = ag.load(model, threads=threads)
    return lambda: compiled.run(None, feed)


if __name__ == "__main__":
    main(load)
