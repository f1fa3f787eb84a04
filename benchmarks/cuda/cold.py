"""Times a new process from a saved model to its first result: importing and the context included.

python -m benchmarks.cuda.cold FILE.agc [--times 5]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from statistics import median

_FIRST_RUN = """
import sys
import numpy as np
import afterglow
model = afterglow.load(sys.argv[1])
made = [np.zeros(info.shape, info.dtype.numpy) for info in model.inputs]
model(*made)
"""


def seconds(path: str, times: int) -> list[float]:
    """The seconds of each of some processes, from their start to their end."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", _FIRST_RUN, path], check=True)
        found.append(time.perf_counter() - start)
    return found


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda.cold")
    parser.add_argument("path")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    found = seconds(options.path, options.times)
    said = ", ".join(f"{each:.2f}" for each in found)
    print(f"{options.path}: first result after {median(found):.2f} s (median of {said})")


if __name__ == "__main__":
    main()
