"""Time models on Afterglow and on other engines, which take turns, and write docs/performance.md.

    python -m benchmarks.run [MODEL.onnx or FOLDER …] [--vs NAME,…] [--results FILE] [--page FOLDER]

Without arguments it takes the model of the demo. It is `afterglow bench` for each model and number
of threads. Each result goes into the file, and what is there already is not measured again: so an
interrupted run goes on, and other engines can be added later, beside Afterglow, which is timed anew
with them. With --page the tables and pictures are written into a folder; docs is that of our own
page, and benchmarks/results.json its file, with which benchmarks/guard.py compares.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from afterglow.report.bench import PEERS
from benchmarks.batches import NoBatchError, write_rebatched
from benchmarks.machine import Others, measure_machine, processor
from benchmarks.markdown import plural
from benchmarks.page import tables, write_page
from benchmarks.results import OURS, Case, Results, Row, load

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "examples" / "digits"
REFERENCE = "onnxruntime"
USUAL = f"{REFERENCE},openvino,mnn"
BATCHED = "digits,mlp_mnist,mobilenetv2,resnet50,minilm_128"


@dataclass(frozen=True)
class Task:
    """A model to time on so many threads, beside other engines; a batch of 0 is the file's own."""

    path: Path
    threads: int
    peers: tuple[str, ...]
    seconds: float
    batch: int = 0

    @property
    def place(self) -> tuple[str, int, int]:
        """Where its row belongs."""
        return self.path.stem, self.threads, self.batch


def models(paths: Iterable[Path]) -> list[Path]:
    """The files named, and those in the folders named."""
    found: list[Path] = []
    for path in paths:
        found.extend(sorted(path.glob("*.onnx")) if path.is_dir() else [path])
    return found


def measured(task: Task, peer_python: str, keep: Path) -> Row | str:
    """What `afterglow bench` says about one model; or why it says nothing."""
    others = Others()
    try:
        path = write_rebatched(task.path, task.batch, keep) if task.batch else task.path
    except NoBatchError as error:
        return str(error)
    words = ["bench", str(path), "--threads", str(task.threads), "--json", "--keep", str(keep)]
    peers = dict.fromkeys([REFERENCE, *task.peers])  # outputs are compared with the first one's
    words += ["--vs", ",".join(peers), "--seconds", str(task.seconds)]
    words += ["--peer-python", peer_python]
    done = subprocess.run(
        [sys.executable, "-m", "afterglow", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return done.stderr.strip()
    answer = json.loads(done.stdout)
    work = ("flops", "weight_bytes", "io_bytes", "arena_bytes")  # unknown where data decide
    return Row(
        *task.place,
        *(answer.get(name) or 0 for name in work),
        others.share(),
        {e["engine"]: _known(e) for e in answer["engines"] if e["engine"] in (OURS, *task.peers)},
    )


def _known(engine: dict[str, Any]) -> dict[str, Any]:
    """Without its name, and without what was not measured."""
    return {key: value for key, value in engine.items() if key != "engine" and value is not None}


def tasks(paths: list[Path], options: dict[str, Any]) -> Iterator[Task]:
    """Everything to be measured."""
    counts = [int(count) for count in options["threads"].split(",")]
    peers = PEERS if options["peers"] == "all" else tuple(options["peers"].split(","))
    for path in paths:
        for count in counts:
            yield Task(path, count, peers, options["seconds"])
    batches = [int(batch) for batch in options["batches"].split(",") if batch]
    chosen = [path for path in paths if path.stem in options["batch_models"].split(",")]
    for path in chosen:
        for count in counts:
            for batch in batches:
                yield Task(path, count, (REFERENCE,), options["batch_seconds"], batch)


def left(task: Task, results: Results) -> Task | None:
    """What of a task is not in the results yet."""
    known = results.known(task.place)
    peers = tuple(peer for peer in task.peers if peer not in known)
    return replace(task, peers=peers) if peers else None


def measure_all(
    wanted: Iterable[Task], results: Results, file: Path, peer_python: str, keep: Path | None
) -> None:
    """Measure what is missing; what engines compile lasts as long as they stay with a model."""
    for _, group in groupby(wanted, key=lambda task: task.path):
        with TemporaryDirectory(prefix="afterglow-bench-") as folder:
            measure_model(group, results, file, peer_python, keep or Path(folder))


def measure_model(
    wanted: Iterable[Task], results: Results, file: Path, peer_python: str, keep: Path
) -> None:
    """Measure what is missing of one model, and save each result at once."""
    for whole in wanted:
        task = left(whole, results)
        if task is None:
            continue
        started = time.monotonic()
        row = measured(task, peer_python, keep)
        if isinstance(row, Row) and not _grows(row, results):
            row = "its operations do not grow as the items do: they are no items"
        if isinstance(row, Row):
            results.add(row)
            results.save(file)
        _say(task, row, time.monotonic() - started)


def _grows(row: Row, results: Results) -> bool:
    """Whether a batch is as many times the work of one item; what has no batch passes."""
    single = [r.flops for r in results.rows if r.model == row.model and not r.batch]
    return not row.batch or not single or row.flops == row.batch * single[0]


def _say(task: Task, row: Row | str, seconds: float) -> None:
    batch = f", batch {task.batch}" if task.batch else ""
    where = f"{task.path.stem}, {plural(task.threads, 'thread')}{batch}"
    best = Case((row,)).best if isinstance(row, Row) else None
    verdict = f"{best[0]:.2f} of {best[1]}" if best else "no ratio"
    said = verdict if isinstance(row, Row) else row
    click.echo(f"{where}: {said} ({seconds:.0f} s)", err=True)


def opened(file: Path, counts: list[int], anew: bool) -> Results:
    """The results so far, which must be of this machine."""
    stored = None if anew else load(file)
    if stored is None:
        return Results(measure_machine(counts))
    if (stored.machine.processor, stored.machine.cores) != (processor(), os.cpu_count()):
        raise click.ClickException(
            f"{file} was measured on another machine, {stored.machine.processor}; "
            "say --anew to begin afresh, or --results with another file"
        )
    return stored


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--threads", default="1,2", show_default=True, help="Numbers of threads.")
@click.option("--seconds", default=3.0, show_default=True, help="Of timing, for each engine.")
@click.option("--vs", "peers", default=USUAL, show_default=True, help="The engines, or all.")
@click.option("--peer-python", default=sys.executable, help="A Python that has them.")
@click.option("--batches", default="", help="Numbers of items, for the table of batches.")
@click.option("--batch-models", default=BATCHED, show_default=True, help="Models of that table.")
@click.option("--batch-seconds", default=1.0, show_default=True, help="Of timing, for each batch.")
@click.option(
    "--results",
    default=ROOT / "build" / "bench" / "results.json",
    type=click.Path(path_type=Path),
    help="The file of results; build/bench/results.json unless said.",
)
@click.option("--anew", is_flag=True, help="Forget what is in that file.")
@click.option("--page", type=click.Path(path_type=Path), help="Write page and pictures there.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep what engines compile there.")
def main(
    paths: tuple[Path, ...],
    results: Path,
    anew: bool,
    page: Path | None,
    keep: Path | None,
    peer_python: str,
    **options: Any,
) -> None:
    """Time every model in PATHS."""
    counts = [int(count) for count in options["threads"].split(",")]
    found = opened(results, counts, anew)
    wanted = tasks(models(paths or [DEMO]), options)
    measure_all(wanted, found, results, peer_python, keep)
    if not found.rows:
        raise click.ClickException("nothing could be measured")
    if page is not None:
        write_page(found, page)
        click.echo(f"wrote {page / 'performance.md'}", err=True)
    click.echo(tables(found))


if __name__ == "__main__":
    main()
