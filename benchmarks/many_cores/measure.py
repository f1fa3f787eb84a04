"""Times the grid of models, numbers of threads and engines: see benchmarks/many_cores.md."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from afterglow.report.bench.engine_process.registry import OURS
from benchmarks.many_cores.__main__ import MODELS, PACKED
from benchmarks.many_cores.clock import Clock
from benchmarks.many_cores.cores import Cores, measure_cores
from benchmarks.many_cores.grid import REFERENCE, Cell, Grid, compile_all
from benchmarks.many_cores.models import Model, make_models, origins
from benchmarks.many_cores.steps import step_lines, step_rows, step_times
from benchmarks.many_cores.table import model_lines, summary

RESERVE = 10.0
"""Seconds before the deadline in which nothing begins."""
TIMED = 0.4
"""The part of a model's time for its turns; the rest is for loading, warming up and slow cores."""


def _options() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="benchmarks.many_cores run", description=__doc__)
    made.add_argument("--names", default="", help="NAME,…: the models, in this order")
    made.add_argument("--models", type=Path, help="a folder of ONNX files, not the packed models")
    made.add_argument("--make", default="", help="a command that makes {folder}/{name}.onnx")
    made.add_argument("--packed", type=Path, default=PACKED / MODELS, help="an archive of models")
    made.add_argument("--threads", default="1,4,8,16", help="numbers of threads")
    made.add_argument("--engines", default=f"{REFERENCE},openvino,{OURS}")
    made.add_argument("--batches", default="", help="NAME=ITEMS,…: further models, of more items")
    made.add_argument("--batch-threads", default="", help="for batches; the largest unless said")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--seconds", type=float, default=0.4, help="of a turn at most")
    made.add_argument("--profile", default="", help="NAME,…: show steps that do not scale")
    made.add_argument("--deadline", type=float, default=540.0, help="seconds for everything")
    made.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "build/many_cores")))
    made.add_argument("--work", type=Path, help="a folder for models and what is compiled")
    return made


class Run:
    """A run: its options, the time left, and what was measured."""

    def __init__(self, given: dict[str, Any], work: Path) -> None:
        self.given, self.work = given, work
        self.clock = Clock(given["deadline"] - RESERVE)
        self.cells: list[Cell] = []
        given["out"].mkdir(parents=True, exist_ok=True)
        self._file = given["out"] / "many_cores.jsonl"
        self._file.unlink(missing_ok=True)

    def everything(self) -> None:
        """Measure in the order of worth, and stop when the time is over."""
        cores = measure_cores()
        self._say(*cores.lines())
        self._write({"alone": cores.alone, "together": cores.together, "order": cores.order})
        wanted = origins(self.given, self.work)
        models = make_models(wanted, self.work / "models", self._at_once(8))
        for name, model in models.items():
            if isinstance(model, str):
                self._say(f"{name}: {model}")
        self._say(f"models made at {self.clock.passed:.0f} s")
        made = [models[each.title] for each in wanted]
        batched = {each.title for each in wanted if each.batch > 1}
        usable = [model for model in made if isinstance(model, Model)]
        grids = [self._grid(model, cores, model.name in batched) for model in usable]
        compile_all(grids, self._at_once(16), self.clock)
        self._say(f"compiled at {self.clock.passed:.0f} s")
        self._profile({model.name: model for model in usable}, cores)
        for number, grid in enumerate(grids):
            self._measure(grid, len(grids) - number)
        self._say("", *summary(self.cells), f"ended at {self.clock.passed:.0f} s")

    def _grid(self, model: Model, cores: Cores, is_batch: bool) -> Grid:
        counts = self._counts("threads")
        if is_batch:
            counts = self._counts("batch_threads") or [max(counts)]
        return Grid(model, self.given["engines"].split(","), counts, cores, self.work / "cells")

    def _counts(self, option: str) -> list[int]:
        return [int(count) for count in self.given[option].split(",") if count]

    def _measure(self, grid: Grid, waiting: int) -> None:
        if self.clock.is_over:
            self._say(f"{grid.model.name}: no time was left")
            return
        rounds = self.given["rounds"]
        share = TIMED * self.clock.left / waiting / (rounds * len(grid.cells))
        grid.measure(rounds, min(self.given["seconds"], share), self.clock)
        self.cells += grid.cells
        for cell in grid.cells:
            self._write(cell.data())
        self._say(*model_lines(grid.cells))

    def _profile(self, models: dict[str, Model], cores: Cores) -> None:
        most = max(self._counts("threads"))
        for name in self.given["profile"].split(","):
            if name in models and not self.clock.is_over:
                one, many = (step_times(models[name], n, cores, self.clock) for n in (1, most))
                rows = step_rows(one, many, most)
                self._write({"profile": name, "threads": most, "steps": rows})
                self._say(*step_lines(name, rows, most))

    def _at_once(self, most: int) -> int:
        return max(1, min(most, len(os.sched_getaffinity(0))))

    def _say(self, *lines: str) -> None:
        for line in lines:
            print(line, flush=True)

    def _write(self, row: dict[str, Any]) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(row) + "\n")


def main() -> None:
    """Measure what the options say."""
    given = vars(_options().parse_args())
    work = given["work"] or Path(tempfile.mkdtemp(prefix="afterglow-many-cores-"))
    try:
        Run(given, work.absolute()).everything()
    finally:
        if given["work"] is None:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
