"""Runs ONNX's own backend tests on the GPU of this machine, in several processes.

    python -m benchmarks.cuda.suite [--seconds 200] [--jobs 12] [--target host] [--only REGEX]

What is not begun in time is counted as such.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import time
import warnings
from collections import Counter
from functools import partial

import afterglow as ag
from afterglow.testing import onnx_suite

RIGHT, LATE = "right", "not begun"


def outcome(name: str, *, target: str, until: float) -> tuple[str, str]:
    """What comes of a case: that it is right, or why it is not."""
    if time.time() > until:
        return name, LATE
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case = onnx_suite.load(name)
            compiled = ag.compile(case.model, backend="cuda", target=target, cache=False)
            names = [info.name for info in compiled.inputs]
            for inputs, outputs in case.data_sets:
                got = compiled.run(None, dict(zip(names, inputs, strict=False)))
                onnx_suite.agree(outputs, got, case.rtol, case.atol)
    except Exception as error:  # whatever a case raises is told
        said = str(error).strip().splitlines() or [""]
        return name, f"{type(error).__name__}: {said[0][:160]}"
    return name, RIGHT


def main() -> None:
    """Run all cases; print how many are right, and what the others say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda.suite")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--target", default="host")
    parser.add_argument("--only", default="", help="a regular expression for names")
    options = parser.parse_args()
    until = time.time() + options.seconds
    names = [name for name in sorted(onnx_suite.names()) if re.search(options.only, name)]
    work = partial(outcome, target=options.target, until=until)
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        found = [*pool.imap_unordered(work, names, chunksize=4)]
    for name, why in sorted(found):
        if why not in (RIGHT, LATE):
            print(f"{name}: {why}")
    counts = Counter(why if why in (RIGHT, LATE) else "wrong or refused" for _, why in found)
    print(f"{len(names):,} cases: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items()))


if __name__ == "__main__":
    main()
