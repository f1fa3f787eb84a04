"""Time one program for a range of extents: beside exact programs, and beside ONNX Runtime.

    python -m benchmarks.ranges MODEL.onnx --dim seq=1..512 [--dim batch=1..8] [--samples 20]
        [--requests 1000] [--threads 1]

First the model is compiled once for the range, and once for each of some random extents; both run
on the same inputs in turns. Then requests with random extents are served from a cold start,
compilation included, by Afterglow and by ONNX Runtime, which take turns as well. The model is tried
as its users have it: the cache on disk is left out, so nothing is known from an earlier run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import click
import numpy as np

import afterglow as ag
from afterglow.runtime import TensorInfo

ROUNDS = 15
"""Turns that the two programs take, of which the fastest run of each counts."""
SECONDS = 1.0
"""How long the two programs take turns at most, once each had a few."""
FEWEST = 3
"""Turns in any case."""
VOCABULARY = 1000
"""Integer inputs are below it: token numbers, in most models."""

BLOCK = 20
"""Requests that an engine serves before the next one does."""

Extents = Mapping[str, int]
Feed = Mapping[str, Any]
Run = Callable[[Feed], Any]
Infos = Sequence[TensorInfo]


@dataclass(frozen=True)
class Range:
    """A dimension with its bounds; extents are multiples of the step."""

    name: str
    low: int
    high: int
    step: int = 1

    @staticmethod
    def parse(text: str) -> Range:
        """What is written `seq=1..512`, `height=32..640:32` or `batch=1`."""
        name, _, bounds = text.partition("=")
        ends, _, step = bounds.partition(":")
        low, _, high = ends.partition("..")
        return Range(name, int(low), int(high or low), int(step or 1))

    def draw(self, rng: np.random.Generator) -> int:
        """An extent at random."""
        steps = rng.integers(self.low // self.step, self.high // self.step + 1)
        return max(self.low, int(steps) * self.step)

    @property
    def bounds(self) -> int | tuple[int, ...]:
        """What `dims` takes."""
        if self.low == self.high:
            return self.low
        return (self.low, self.high) if self.step == 1 else (self.low, self.high, self.step)


@dataclass(frozen=True)
class Sample:
    """The least seconds of a run at some extents, and the largest difference of results."""

    extents: Extents
    ranged: float
    exact: float
    difference: float

    @property
    def ratio(self) -> float:
        """The time of the program for the range, by that of the exact program."""
        return self.ranged / self.exact


def draw_inputs(infos: Infos, extents: Extents, rng: np.random.Generator) -> dict[str, Any]:
    """Arrays for the inputs of a model: normal numbers, and integers that tokens may be."""
    feed = {}
    for info in infos:
        assert info.dtype is not None
        shape = tuple(e if isinstance(e, int) else extents[str(e)] for e in info.shape or ())
        dtype = info.dtype.numpy
        if info.dtype.is_float:
            feed[info.name] = rng.standard_normal(shape).astype(dtype)
        elif "mask" in info.name:
            feed[info.name] = np.ones(shape, dtype)
        elif "type" in info.name or info.dtype.bits == 8:
            feed[info.name] = np.zeros(shape, dtype)
        else:
            feed[info.name] = rng.integers(0, VOCABULARY, shape).astype(dtype)
    return feed


def least_seconds(runs: Sequence[Any]) -> list[float]:
    """The least seconds of each of some functions, which take turns."""
    best = [math.inf] * len(runs)
    end = time.perf_counter() + SECONDS
    for turn in range(ROUNDS):
        if turn >= FEWEST and time.perf_counter() > end:
            break
        for place, run in enumerate(runs):
            started = time.perf_counter()
            run()
            best[place] = min(best[place], time.perf_counter() - started)
    return best


def samples(
    path: Path, infos: Infos, ranges: Sequence[Range], count: int, threads: int, seed: int
) -> Iterator[tuple[Sample, float]]:
    """The range beside exact programs at random extents, each with its time to compile."""
    rng = np.random.default_rng(seed)
    started = time.perf_counter()
    dims = {r.name: r.bounds for r in ranges}
    ranged = ag.compile(path, dims=dims, threads=threads, cache=False)
    click.echo(f"compiled for the range in {time.perf_counter() - started:.2f} s")
    click.echo(str(ranged.memory))
    for _ in range(count):
        extents = {r.name: r.draw(rng) for r in ranges}
        started = time.perf_counter()
        exact = ag.compile(path, dims=extents, threads=threads, cache=False)
        seconds = time.perf_counter() - started
        feed = draw_inputs(infos, extents, rng)
        one, other = ranged.run(None, feed), exact.run(None, feed)
        differences = (_difference(a, b) for a, b in zip(one, other, strict=True))
        times = least_seconds([lambda: ranged.run(None, feed), lambda: exact.run(None, feed)])  # noqa: B023
        yield Sample(extents, times[0], times[1], max(differences)), seconds


def _difference(one: Any, other: Any) -> float:
    """The largest difference of two arrays, by the largest element."""
    scale = max(1.0, float(np.abs(other).max(initial=0.0)))
    return float(np.abs(one.astype(float) - other).max(initial=0.0)) / scale


@dataclass
class Server:
    """An engine that serves requests, and the seconds that it took so far."""

    start: Callable[[], Run]
    """Gets ready for the first request, from nothing, and says what serves one."""
    seconds: float = 0.0
    run: Run | None = None

    def serve(self, feeds: Sequence[Feed]) -> None:
        """Serve some requests, one after the other."""
        started = time.perf_counter()
        if self.run is None:
            self.run = self.start()
        for feed in feeds:
            self.run(feed)
        self.seconds += time.perf_counter() - started


def take_turns(servers: Sequence[Server], feeds: Iterable[Feed], block: int = BLOCK) -> None:
    """Have each server serve all requests: a block, then the next does so, for the load's sake."""
    rest = iter(feeds)
    while some := list(islice(rest, block)):
        for server in servers:
            server.serve(some)


def _requests(
    path: Path, infos: Infos, ranges: Sequence[Range], count: int, threads: int, seed: int
) -> None:
    """Serve requests from a cold start: with bounds, without, and by ONNX Runtime."""
    import onnxruntime  # noqa: PLC0415  other engines are not needed for the first half

    def compiled(**dims: Any) -> Run:
        model = ag.compile(path, threads=threads, cache=False, **dims)
        return lambda feed: model.run(None, feed)

    def session() -> Run:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        providers = ["CPUExecutionProvider"]
        own = onnxruntime.InferenceSession(str(path), options, providers=providers)
        return lambda feed: own.run(None, feed)

    rng = np.random.default_rng(seed)
    servers = [
        Server(lambda: compiled(dims={r.name: r.bounds for r in ranges})),
        Server(compiled),
        Server(session),
    ]
    drawn = ({r.name: r.draw(rng) for r in ranges} for _ in range(count))
    take_turns(servers, (draw_inputs(infos, extents, rng) for extents in drawn))
    ours, free, theirs = (server.seconds for server in servers)
    click.echo(
        f"{count} requests: {ours:.2f} s with bounds, {free:.2f} s without, "
        f"ONNX Runtime {theirs:.2f} s: {ours / theirs:.2f} and {free / theirs:.2f}"
    )


@click.command(help=__doc__)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--dim", "dims", multiple=True, required=True)
@click.option("--samples", "count", default=20)
@click.option("--requests", default=0)
@click.option("--threads", default=1)
@click.option("--seed", default=0)
def main(
    path: Path, dims: Sequence[str], count: int, requests: int, threads: int, seed: int
) -> None:
    """Print a line for each sample, the geometric mean, and the requests."""
    ranges = [Range.parse(text) for text in dims]
    infos = ag.compile(path, threads=threads, cache=False).inputs
    ratios = []
    for sample, seconds in samples(path, infos, ranges, count, threads, seed) if count else ():
        ratios.append(sample.ratio)
        where = ", ".join(f"{name} {extent}" for name, extent in sample.extents.items())
        click.echo(
            f"{where:<24} {sample.ranged * 1e3:9.3f} ms  exact {sample.exact * 1e3:9.3f} ms  "
            f"{sample.ratio:.3f}  differs by {sample.difference:.1g}, "
            f"the exact one compiled in {seconds:.2f} s"
        )
    if ratios:
        click.echo(f"geometric mean {geometric_mean(ratios):.3f}, worst {max(ratios):.3f}")
    if requests:
        _requests(path, infos, ranges, requests, threads, seed)


if __name__ == "__main__":
    main()
