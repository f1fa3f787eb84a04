"""Compare models that other tools quantized dynamically with ONNX Runtime: speed and results.

    python -m benchmarks.dynamic_quantization [PATTERN…] [--zoo FOLDER] [--folder FOLDER]
        [--threads N] [--seconds S] [--target T]

`--zoo` is a folder with float models of the other benchmarks; `--folder` keeps the models that are
made (`dynamic_models` says which). Both engines take turns in one process, and the median of the
calls counts. The rows of the table come slowest first. "difference" is the largest of the first
output, relative to its spread, as `scale` of the results defines it.
"""

from __future__ import annotations

import fnmatch
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import onnx
import onnxruntime

import afterglow as ag
from benchmarks.dynamic_models import Case, all_cases
from benchmarks.markdown import table

LEAST_CALLS = 5


@dataclass(frozen=True)
class Row:
    """What came of a model."""

    name: str
    ours: float
    theirs: float
    difference: float
    cosine: float

    @property
    def ratio(self) -> float:
        """Our time by theirs."""
        return self.ours / self.theirs


def difference(got: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """The largest difference by the spread of what is expected, and the cosine similarity."""
    g, w = (part.astype(np.float64).ravel() for part in (got, expected))
    spread = max(w.std(), 0.05 * np.abs(w).max(), 1e-12)
    norms = np.linalg.norm(g) * np.linalg.norm(w)
    return float(np.abs(g - w).max() / spread), float(g @ w / norms) if norms else 1.0


def compare(case: Case, folder: Path, threads: int, seconds: float, target: str) -> Row:
    """Run a model by both engines, in turns."""
    path = case.make(folder)
    feed = case.feed(onnx.load(path))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    model = ag.compile(path, threads=threads, target=target)
    far = difference(model.run(None, feed)[0], session.run(None, feed)[0])
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while len(times[0]) < LEAST_CALLS or time.perf_counter() < end:
        for taken, run in zip(times, (model.run, session.run), strict=True):
            start = time.perf_counter()
            run(None, feed)
            taken.append(time.perf_counter() - start)
    ours, theirs = (float(np.median(taken)) for taken in times)
    return Row(f"{case.name}.{case.kind}", ours, theirs, *far)


@click.command(help=__doc__)
@click.argument("patterns", nargs=-1)
@click.option("--zoo", type=click.Path(exists=True, path_type=Path))
@click.option("--folder", type=click.Path(path_type=Path))
@click.option("--threads", default=1)
@click.option("--seconds", default=2.0)
@click.option("--target", default="host")
def main(
    patterns: tuple[str, ...],
    zoo: Path | None,
    folder: Path | None,
    threads: int,
    seconds: float,
    target: str,
) -> None:
    """See the module."""
    with tempfile.TemporaryDirectory() as scratch:
        place = folder or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        rows = []
        for case in all_cases(zoo):
            name = f"{case.name}.{case.kind}"
            if patterns and not any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
                continue
            rows.append(compare(case, place, threads, seconds, target))
            click.echo(f"{name} {rows[-1].ratio:.2f}", err=True)
    show(rows)


def show(rows: list[Row]) -> None:
    """Print the table, and the mean of the ratios."""
    cells = [
        (
            *(row.name, f"{1e3 * row.ours:.3f}", f"{1e3 * row.theirs:.3f}", f"{row.ratio:.2f}"),
            *(f"{row.difference:.1e}", f"{row.cosine:.5f}"),
        )
        for row in sorted(rows, key=lambda row: -row.ratio)
    ]
    titles = ("model", "ms", "ONNX Runtime, ms", "ratio", "difference", "cosine")
    click.echo(table(titles, cells))
    mean = float(np.exp(np.mean([np.log(row.ratio) for row in rows])))
    click.echo(f"geometric mean of {len(rows)} ratios: {mean:.2f}")


if __name__ == "__main__":
    main()
