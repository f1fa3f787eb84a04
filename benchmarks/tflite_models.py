"""TFLite models against LiteRT with XNNPACK: whether results agree, and what a run takes.

python benchmarks/tflite_models.py FOLDER … [--threads 1,2] [--seconds 2] [--only TEXT] [--no-times]

Needs the packages `tflite` and `ai-edge-litert`. Both run in turns; times are the least of many.
Variables keep their values from run to run: results are those after three runs.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import afterglow as ag

Array = np.ndarray[Any, Any]

CALLS = 3
"""Runs whose last results are compared."""
CLOSE = 1e-4
"""How far floats may differ, by the largest of a result."""
LONG = 16000
"""The extent of a dynamic axis where LiteRT does not take the one that the file has."""


@dataclass
class Report:
    """What became of a model: how far results differ, or why there are none; milliseconds."""

    name: str
    text: str
    agrees: bool
    times: dict[int, tuple[float, float]]


class Litert:
    """A model in LiteRT."""

    def __init__(self, path: Path, threads: int, **options: Any) -> None:
        self.interpreter = Interpreter(model_path=str(path), num_threads=threads, **options)
        try:
            self.interpreter.allocate_tensors()
        except RuntimeError:
            for detail in self.interpreter.get_input_details():
                first, *rest = detail["shape_signature"]
                shape = [abs(first), *(LONG if extent < 0 else extent for extent in rest)]
                self.interpreter.resize_tensor_input(detail["index"], shape)
            self.interpreter.allocate_tensors()

    def inputs(self) -> list[Array]:
        """Random inputs."""
        rng = np.random.default_rng(0)
        return [_random(rng, each) for each in self.interpreter.get_input_details()]

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """One run."""
        for detail, array in zip(self.interpreter.get_input_details(), arrays, strict=True):
            self.interpreter.set_tensor(detail["index"], array)
        self.interpreter.invoke()
        details = self.interpreter.get_output_details()
        return [self.interpreter.get_tensor(detail["index"]) for detail in details]


def _random(rng: np.random.Generator, detail: dict[str, Any]) -> Array:
    shape, dtype = detail["shape"], np.dtype(detail["dtype"])
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    limits = np.iinfo(dtype)
    return rng.integers(max(limits.min, -128), min(limits.max, 127), shape).astype(dtype)


def compare(path: Path, threads: Sequence[int], seconds: float) -> Report:
    """One model."""
    name = f"{path.parent.name}/{path.name}"
    try:
        ours = ag.compile(path, threads=1)
    except ag.AfterglowError as error:
        return Report(name, f"refused: {str(error).splitlines()[0]}", False, {})
    try:
        theirs = Litert(path, 1)
    except (RuntimeError, ValueError) as error:
        return Report(name, f"LiteRT: {str(error).splitlines()[0]}", True, {})
    arrays = theirs.inputs()
    for _ in range(CALLS):
        found, expected = _as_list(ours(*arrays)), theirs.run(arrays)
    text, agrees = _difference(found, expected)
    if not agrees and text[-1] not in "s)":
        text, agrees = _by_reference(path, arrays, found, expected, text)
    times = {count: _times(path, count, arrays, seconds) for count in threads}
    return Report(name, text, agrees, times)


def _as_list(results: Any) -> list[Array]:
    return [results] if isinstance(results, np.ndarray) else list(results)


def _difference(found: Sequence[Array], expected: Sequence[Array]) -> tuple[str, bool]:
    """How far results are apart: steps of integers, or parts of the largest float."""
    worst, steps = 0.0, 0
    for ours, theirs in zip(found, expected, strict=True):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"{ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}", False
        apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max(initial=0)
        if theirs.dtype.kind == "f":
            worst = max(worst, apart / max(float(np.abs(theirs).max(initial=0)), 1e-6))
        else:
            steps = max(steps, int(apart))
    agrees = worst <= CLOSE and steps <= 1
    return (f"{steps} steps" if steps else f"{worst:.1e}"), agrees


def _by_reference(
    path: Path, arrays: list[Array], found: list[Array], expected: list[Array], text: str
) -> tuple[str, bool]:
    """Whether ours are as near to LiteRT's reference kernels as those of XNNPACK are."""
    reference = Litert(path, 1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    for _ in range(CALLS):
        exact = reference.run(arrays)
    (ours, _), (theirs, _) = _difference(found, exact), _difference(expected, exact)
    return f"{text} (from the reference: ours {ours}, XNNPACK's {theirs})", float(ours) <= float(
        theirs
    )


def _times(path: Path, threads: int, arrays: list[Array], seconds: float) -> tuple[float, float]:
    """The least milliseconds of a run of ours and of theirs, in turns."""
    model, other = ag.compile(path, threads=threads), Litert(path, threads)
    runs: list[Callable[[], object]] = [lambda: model(*arrays), lambda: other.run(arrays)]
    least = [math.inf, math.inf]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for index, run in enumerate(runs):
            for _ in range(3):
                start = time.perf_counter()
                run()
                least[index] = min(least[index], time.perf_counter() - start)
    return 1e3 * least[0], 1e3 * least[1]


def main() -> None:
    """Print a line for each model, and the geometric means; see the top of the file."""
    options = _options()
    threads = [] if options.no_times else [int(each) for each in options.threads.split(",")]
    reports = []
    for path in _files(options):
        reports.append(compare(path, threads, options.seconds))
        _print(reports[-1])
    agreeing = sum(report.agrees for report in reports)
    print(f"{agreeing} of {len(reports)} models agree")
    for count in threads:
        ratios = [
            report.times[count][0] / report.times[count][1] for report in reports if report.times
        ]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{count} threads: {mean:.2f} of LiteRT's time, {len(ratios)} models")
    sys.exit(agreeing < len(reports))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-times", action="store_true")
    return parser.parse_args()


def _files(options: argparse.Namespace) -> Iterator[Path]:
    found = sorted(path for folder in options.folders for path in folder.rglob("*.tflite"))
    return (path for path in found if options.only in str(path))


def _print(report: Report) -> None:
    times = "  ".join(
        f"{count} threads {ours:.3f} ms, LiteRT {theirs:.3f} ms ({ours / theirs:.2f})"
        for count, (ours, theirs) in report.times.items()
    )
    mark = "" if report.agrees else "DIFFERS "
    print(f"{report.name}: {mark}{report.text}  {times}", flush=True)


if __name__ == "__main__":
    main()
