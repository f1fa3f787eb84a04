"""Time loops that grow, branch and end when they like, beside ONNX Runtime.

    python -m benchmarks.loops [NAME ...] [--seconds 1.0]

Models are made here: scripted PyTorch modules through its exporter (`loop_modules`,
`loop_searches`, `loop_lengths`), and graphs written by hand (`loop_graphs`). Each is run on four
feeds before it is timed, one thread each, both engines in turns; the median of each counts. A model
whose results differ is marked as wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Any

import click
import numpy as np
import onnxruntime

import afterglow as ag
from benchmarks.loop_cases import CASES, Case

WARM_UP = 3
"""Feeds that run after the first one, before anything is timed."""

Feed = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """What was measured of a model."""

    name: str
    ours: float
    theirs: float
    first: float
    """Seconds until the first result, compilation included."""
    agrees: bool

    @property
    def ratio(self) -> float:
        """Our time by theirs."""
        return self.ours / self.theirs

    def __str__(self) -> str:
        return (
            f"{self.name:22} {self.ours * 1e3:9.3f} ms, ONNX Runtime {self.theirs * 1e3:9.3f}, "
            f"ratio {self.ratio:6.2f}, first result {self.first:5.2f} s"
            f"{'' if self.agrees else '  WRONG'}"
        )


def measure(case: Case, seconds: float) -> Row:
    """Run a model on both engines."""
    data, draw = case.make(), np.random.default_rng(0)
    theirs = _onnxruntime(data)
    begin = time.perf_counter()
    compiled = ag.compile(data, threads=1)
    ours: Callable[[Feed], Sequence[Any]] = lambda feed: compiled.run(None, feed)  # noqa: E731
    ours(case.feed(draw))
    first = time.perf_counter() - begin
    feeds = [case.feed(draw) for _ in range(WARM_UP)]
    agrees = all(is_same(ours(feed), theirs(feed)) for feed in feeds)
    times = take_turns(ours, theirs, feeds[-1], seconds)
    return Row(case.name, *times, first, agrees)


def _onnxruntime(data: bytes) -> Callable[[Feed], Sequence[Any]]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return lambda feed: session.run(None, feed)


def is_same(got: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether results have the same types, shapes and, but for rounding, the same values."""
    return all(
        (x.dtype, x.shape) == (y.dtype, y.shape) and np.allclose(x, y, rtol=1e-3, atol=1e-4)
        for x, y in zip(got, wanted, strict=True)
    )


def take_turns(
    one: Callable[[Feed], Any], other: Callable[[Feed], Any], feed: Feed, seconds: float
) -> tuple[float, float]:
    """The median times of two engines that take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    begin = time.perf_counter()
    while len(times[0]) < 5 or time.perf_counter() - begin < seconds:
        for run, found in zip((one, other), times, strict=True):
            start = time.perf_counter()
            run(feed)
            found.append(time.perf_counter() - start)
    return median(times[0]), median(times[1])


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([case.name for case in CASES]))
@click.option("--seconds", default=1.0, help="For how long the engines take turns.")
def main(names: tuple[str, ...], seconds: float) -> None:
    """Print a line for each model, the slowest last, and the geometric mean."""
    rows = [measure(case, seconds) for case in CASES if not names or case.name in names]
    for row in sorted(rows, key=lambda row: row.ratio):
        click.echo(row)
    click.echo(f"{len(rows)} models: geometric mean {geometric_mean(r.ratio for r in rows):.3f}")


if __name__ == "__main__":
    main()
