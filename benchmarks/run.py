"""Time the compiler and the interpreter on models, with ONNX Runtime beside them.

    python benchmarks/run.py [MODEL.onnx or FOLDER …] [--repeat N]

Without arguments it takes the model of the demo. A model is compiled once, and run N times on
random inputs, of which the fastest counts. Both engines take as many threads as they like. The
interpreter runs ops by their definition in NumPy: its times say what to expect of it, no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter

import click
import numpy as np
import onnxruntime
from rich.console import Console
from rich.progress import track

from afterglow.cli.feed import build_feed
from afterglow.cli.progress import StageClock
from afterglow.cli.report import duration
from afterglow.cli.results import relative_error
from afterglow.cli.session import Session, table
from afterglow.driver.compile import compile_with
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.support.errors import AfterglowError

DEMO = Path(__file__).parent.parent / "examples" / "digits"
STAGES = ("import", "optimise", "lower", "plan memory")
FIGURES = (*STAGES, "interpreter", "onnxruntime", "ratio", "error")


def models(paths: Iterable[Path]) -> list[Path]:
    """The files named, and those in the folders named."""
    found: list[Path] = []
    for path in paths:
        found.extend(sorted(path.glob("*.onnx")) if path.is_dir() else [path])
    return found


def fastest(call: Callable[[], list[np.ndarray]], repeat: int) -> tuple[list[np.ndarray], float]:
    """What the call returned, and the seconds that it took at best."""
    best = math.inf
    for _ in range(repeat):
        started = perf_counter()
        outputs = call()
        best = min(best, perf_counter() - started)
    return outputs, best


def measured(path: Path, repeat: int) -> list[str]:
    """The row of one model."""
    options = Options()
    feed = build_feed(open_source(path).signature(options).inputs, options, (), seed=0)
    with StageClock(Console(quiet=True)) as clock:
        model = compile_with(path, Options(progress=clock))
    ours, our_seconds = fastest(lambda: model.run(None, feed), repeat)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    theirs, their_seconds = fastest(lambda: session.run(None, feed), repeat)
    error = max(relative_error(a, np.asarray(b)) for a, b in zip(ours, theirs, strict=True))
    return [
        path.stem,
        *(duration(clock.seconds.get(stage, 0.0)) for stage in STAGES),
        duration(our_seconds),
        duration(their_seconds),
        f"{our_seconds / their_seconds:.1f}",
        f"{error:.1g}",
    ]


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True)
def main(paths: tuple[Path, ...], repeat: int) -> None:
    """Time every model in PATHS."""
    session = Session()
    rows = table("model", *FIGURES, right=FIGURES)
    for path in track(models(paths or [DEMO]), "timing", console=session.err, transient=True):
        try:
            rows.add_row(*measured(path, repeat))
        except AfterglowError as error:
            rows.add_row(path.stem, *("-" for _ in FIGURES))
            session.err.print(f"{path.stem}: {error.what}", markup=False)
    session.show(rows)


if __name__ == "__main__":
    main()
