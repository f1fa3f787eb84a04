"""Scripts that load a model by one tool and run it for a while whenever they are told.

    python -m benchmarks.speed_TOOL MODEL FEED.npz THREADS

After "ready" on a line, each number on a line of the input is for how many seconds to run the
model; the answer is the time of the fastest call, in seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Feed = dict[str, Any]
Load = Callable[[Path, Feed, int], Callable[[], object]]
"""From a model, inputs and a number of threads to a function that runs it."""
LEAST_CALLS = 2


def main(load: Load) -> None:
    """Load a model and run it, as the command line and the input say."""
    model, feed, threads = sys.argv[1:]
    run = load(Path(model), dict(np.load(feed)), int(threads))
    run()
    print("ready", flush=True)
    for line in sys.stdin:
        print(fastest(run, float(line)), flush=True)


def fastest(run: Callable[[], object], seconds: float) -> float:
    """The time of the fastest call within some seconds."""
    best, calls, end = float("inf"), 0, time.perf_counter() + seconds
    while calls < LEAST_CALLS or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best, calls = min(best, time.perf_counter() - start), calls + 1
    return best
