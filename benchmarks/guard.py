"""Notice models that have become slower: compare ratios to other engines with those stored.

    python -m benchmarks.guard [MODEL.onnx or FOLDER …] [--peer-python PATH] [--tolerance 0.1]

Both engines are measured in the same run, so a slow machine slows both. A model whose ratio to the
fastest other engine is larger than the one in benchmarks/results.json by more than the tolerance is
measured again, for longer; if it is still so, it is listed, and the exit status is 1. So it is if
none of the models has a stored ratio: then nothing was guarded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.results import DEFAULT, Case, Results, Row, load
from benchmarks.run import DEMO, USUAL, Task, measured, models

LONGER = 3.0
"""How many times the time the second measurement has."""

Measure = Callable[[Path, int, float], float]
"""The ratio of a model on so many threads, timed so many times the usual time."""


@dataclass(frozen=True)
class Verdict:
    """A model on so many threads: its ratio today, and the one that is stored."""

    model: str
    threads: int
    ratio: float
    stored: float
    slower: bool

    def __str__(self) -> str:
        word = "slower" if self.slower else "as before"
        figures = f"{self.ratio:6.2f}, stored {self.stored:6.2f}"
        return f"{self.model:24} {self.threads} threads: {figures}: {word}"


def stored_ratios(results: Results, peers: Iterable[str]) -> dict[tuple[str, int], float]:
    """The largest ratio to one of some engines, for each model and number of threads."""
    chosen = set(peers)
    found: dict[tuple[str, int], float] = {}
    for case in results.cases():
        ratios = [row.ratio(peer) for row in case.rows for peer in row.peers if peer in chosen]
        known = [ratio for ratio in ratios if ratio is not None]
        if known:
            found[case.row.model, case.row.threads] = max(known)
    return found


def verdicts(
    paths: Iterable[Path],
    stored: dict[tuple[str, int], float],
    measure: Measure,
    tolerance: float,
) -> Iterator[Verdict]:
    """Compare each model that has a stored ratio; a worse one is measured twice."""
    for path in paths:
        for (model, threads), before in stored.items():
            if model != path.stem:
                continue
            ratio = measure(path, threads, 1.0)
            limit = before * (1 + tolerance)
            if ratio > limit:
                ratio = min(ratio, measure(path, threads, LONGER))
            yield Verdict(model, threads, ratio, before, ratio > limit)


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--seconds", default=2.0, show_default=True, help="Of timing, for each engine.")
@click.option("--vs", "peers", default=USUAL, show_default=True, help="The engines.")
@click.option("--peer-python", default=sys.executable, help="A Python that has them.")
@click.option("--tolerance", default=0.1, show_default=True, help="How much slower is no matter.")
@click.option("--results", default=DEFAULT, type=click.Path(path_type=Path), help="What is stored.")
def main(
    paths: tuple[Path, ...],
    seconds: float,
    peers: str,
    peer_python: str,
    tolerance: float,
    results: Path,
) -> None:
    """Compare every model in PATHS that has a stored ratio."""
    names = tuple(peers.split(","))
    stored = load(results)
    ratios = stored_ratios(stored, names) if stored else {}
    seen = []
    with TemporaryDirectory(prefix="afterglow-guard-") as folder:

        def measure(path: Path, threads: int, longer: float) -> float:
            """Infinite if the model, or all other engines, do not run."""
            task = Task(path, threads, names, seconds * longer)
            row = measured(task, peer_python, Path(folder))
            best = Case((row,)).best if isinstance(row, Row) else None
            return best[0] if best else float("inf")

        for verdict in verdicts(models(paths or [DEMO]), ratios, measure, tolerance):
            click.echo(verdict)
            seen.append(verdict)
    if not seen:
        raise click.ClickException(f"{results} has a ratio of none of these models")
    sys.exit(1 if any(verdict.slower for verdict in seen) else 0)


if __name__ == "__main__":
    main()
