"""Time models on Afterglow and on other engines, which take turns, and write docs/performance.md.

    python benchmarks/run.py [MODEL.onnx or FOLDER …] [--threads 1,2] [--seconds S] [--write]

Without arguments it takes the model of the demo. It is `afterglow bench` for each model and number
of threads. With --results FILE each result is kept in that file, and what is there already is not
measured again: so an interrupted run goes on, and tables can be made anew. With --write the tables
and the picture go into docs/performance.md, and the ratios into benchmarks/ratios.json, with which
benchmarks/guard.py compares.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from cpu_microkernel import peak
from page import FOLDER, Row, tables, write_page
from rich.console import Console
from rich.progress import track

from afterglow.backends.cpu.target import Target

DEMO = Path(__file__).parent.parent / "examples" / "digits"
RATIOS = Path(__file__).parent / "ratios.json"
PEERS = "onnxruntime,openvino,mnn"


def models(paths: Iterable[Path]) -> list[Path]:
    """The files named, and those in the folders named."""
    found: list[Path] = []
    for path in paths:
        found.extend(sorted(path.glob("*.onnx")) if path.is_dir() else [path])
    return found


def measured(path: Path, threads: int, options: dict[str, Any]) -> Row | None:
    """What `afterglow bench` says about one model."""
    words = ["bench", str(path), "--threads", str(threads), "--json"]
    words += ["--vs", options["peers"], "--seconds", str(options["seconds"])]
    words += ["--peer-python", options["peer_python"]]
    done = subprocess.run(
        [sys.executable, "-m", "afterglow.cli.main", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        Console(stderr=True).print(f"{path.stem}: {done.stderr}", markup=False)
        return None
    answer = json.loads(done.stdout)
    engines = {row["engine"]: row for row in answer["engines"]}
    return Row(path.stem, threads, answer["flops"], engines)


def kept(path: Path | None) -> list[Row]:
    """The results in a file of lines."""
    if path is None or not path.exists():
        return []
    return [Row(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def measured_or_kept(
    path: Path, threads: int, options: dict[str, Any], file: Path | None
) -> Row | None:
    """One result: the last one of the file, or else measured, and kept in the file."""
    for row in reversed(kept(file)):
        if (row.model, row.threads) == (path.stem, threads):
            return row
    row = measured(path, threads, options)
    if row is not None and file is not None:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(row)) + "\n")
    return row


def machine_peak() -> float:
    """GFLOP/s of one core that does nothing but multiply and add."""
    target = Target.host()
    return peak(target, 12 if target.vector_registers < 32 else 20)


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--threads", default="1,2", show_default=True, help="Numbers of threads.")
@click.option("--seconds", default=3.0, show_default=True, help="Of timing, for each engine.")
@click.option("--vs", "peers", default=PEERS, show_default=True, help="The engines.")
@click.option("--peer-python", default=sys.executable, help="A Python that has them.")
@click.option("--results", type=click.Path(path_type=Path), help="Keep results in this file.")
@click.option("--write", is_flag=True, help=f"Write {FOLDER / 'performance.md'}.")
def main(
    paths: tuple[Path, ...], threads: str, results: Path | None, write: bool, **options: Any
) -> None:
    """Time every model in PATHS."""
    most = machine_peak()
    wanted = [(path, int(n)) for path in models(paths or [DEMO]) for n in threads.split(",")]
    console = Console(stderr=True)
    found = [
        measured_or_kept(path, count, options, results)
        for path, count in track(wanted, "timing", console=console, transient=True)
    ]
    rows = [row for row in found if row is not None and row.ratio is not None]
    if not rows:
        sys.exit("no other engine could be timed: nothing to compare with")
    print(tables(rows, most))
    if write:
        write_page(rows, most)
        stored = {f"{row.model} {row.threads}": round(row.ratio or 0.0, 3) for row in rows}
        RATIOS.write_text(json.dumps(stored, indent=2) + "\n")


if __name__ == "__main__":
    main()
