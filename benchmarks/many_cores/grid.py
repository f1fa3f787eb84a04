"""The grid of engines and numbers of threads for a model, which take turns."""

from __future__ import annotations

import hashlib
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.report.agreement import relative_error
from afterglow.report.bench.engine_process.registry import OURS
from afterglow.report.bench.engine_process.serve import RESULTS
from afterglow.report.bench.process import EngineError, EngineProcess
from benchmarks.many_cores.clock import Clock
from benchmarks.many_cores.cores import Cores, SpeedWatch
from benchmarks.many_cores.models import Model

REFERENCE = "onnxruntime"
LONGEST = 150.0
"""Seconds for compiling or loading a model."""
STEADY = 0.85
"""The part of their best speed that cores have before and after a turn that counts."""
TRIES = 4
"""Attempts of a turn whose cores slow down; then the one on the fastest cores stays."""
PAUSE = 0.05
"""Seconds in which slow cores may recover before they are looked at again."""


@dataclass
class Cell:
    """An engine on some threads of some cores with a model: what was measured, or why not."""

    model: str
    engine: str
    threads: int
    cores: list[int]
    turns: list[list[float]] = field(default_factory=list)
    """Seconds of each call, by turns."""
    speeds: list[float] = field(default_factory=list)
    """The speed of the slowest core around each turn, relative to its best."""
    repeated: int = 0
    """Turns that were run again, since cores had slowed down meanwhile."""
    compile_seconds: float | None = None
    load_seconds: float | None = None
    error: float | None = None
    """Relative to the reference engine's output on as many threads."""
    digest: str = ""
    """Of the outputs' bytes."""
    problem: str = ""

    @property
    def best(self) -> float | None:
        """Seconds of the fastest call."""
        return min((min(turn) for turn in self.turns), default=None)

    @property
    def spread(self) -> float:
        """The fastest call of the slowest turn, relative to the fastest call of all."""
        bests = [min(turn) for turn in self.turns]
        return max(bests) / min(bests) if bests else 1.0

    @property
    def slow_turns(self) -> int:
        """Turns that count although cores were slow in every attempt."""
        return sum(speed < STEADY for speed in self.speeds)

    def data(self) -> dict[str, Any]:
        """A line of the results."""
        known = {name: value for name, value in asdict(self).items() if name != "turns"}
        if not self.turns:
            return known
        middle = statistics.median(statistics.median(turn) for turn in self.turns)
        calls = sum(map(len, self.turns))
        return {
            **known,
            "min_ms": (self.best or 0) * 1e3,
            "median_ms": middle * 1e3,
            "calls": calls,
            "turns_ms": [min(turn) * 1e3 for turn in self.turns],
            "spread": self.spread,
            "slow_turns": self.slow_turns,
        }


class Grid:
    """All cells of a model, with their folders and processes."""

    def __init__(
        self, model: Model, engines: Sequence[str], threads: Sequence[int], cores: Cores, work: Path
    ) -> None:
        self.model = model
        self.cells = [
            Cell(model.name, engine, count, []) for count in threads for engine in engines
        ]
        self._cores, self._work = cores, work
        self._watch = SpeedWatch(cores.spin)
        self._processes: dict[int, EngineProcess] = {}
        self._outputs: dict[int, list[Any]] = {}

    @property
    def own(self) -> list[Cell]:
        """Those of Afterglow, which are compiled ahead."""
        return [cell for cell in self.cells if cell.engine == OURS]

    def compile(self, cell: Cell, clock: Clock) -> None:
        """Compile ahead of time, in a process of its own on any core."""
        with self._process(cell, "build") as process:
            try:
                answer = process.read(clock.at_most(LONGEST))
                cell.compile_seconds = answer["compile_seconds"]
            except EngineError as error:
                cell.problem = str(error)

    def measure(self, rounds: int, seconds: float, clock: Clock) -> None:
        """Load everything at once, then have one after the other run for a while, in rounds.

        All engines have the same cores for a number of threads: those that are fastest now.
        """
        now = self._cores.again()
        for cell in self.cells:
            cell.cores = now.first(cell.threads)
        try:
            self._load(clock)
            for _ in range(rounds):
                for place in range(len(self.cells)):
                    self._turn(place, seconds, clock)
        finally:
            for process in self._processes.values():
                process.close()
            self._compare()
            shutil.rmtree(self._work / self.model.name, ignore_errors=True)

    def _load(self, clock: Clock) -> None:
        for place, cell in enumerate(self.cells):
            if not cell.problem:
                self._processes[place] = self._process(cell, "serve")
        for place, process in list(self._processes.items()):
            cell = self.cells[place]
            try:
                cell.load_seconds = process.read(clock.at_most(LONGEST))["load_seconds"]
                process.freeze()
                self._read_outputs(place)
            except EngineError as error:
                self._fail(place, error)

    def _turn(self, place: int, seconds: float, clock: Clock) -> None:
        process = self._processes.get(place)
        if process is None or clock.is_over:
            return
        cell = self.cells[place]
        asked = {"seconds": seconds, "warm": True, "clients": 1}

        def run() -> list[float]:
            times: list[float] = process.ask(asked, clock.at_most(60.0))["times"]
            return times

        try:
            attempts = steady_turn(run, lambda: self._watch.speed(cell.cores), clock)
        except EngineError as error:
            self._fail(place, error)
            return
        speed, times = max(attempts)
        cell.turns.append(times)
        cell.speeds.append(speed)
        cell.repeated += len(attempts) - 1

    def _fail(self, place: int, error: EngineError) -> None:
        self.cells[place].problem = str(error)
        self._processes.pop(place).close()

    def _read_outputs(self, place: int) -> None:
        digest = hashlib.sha256()
        with np.load(self._folder(self.cells[place]) / RESULTS) as stored:
            outputs = [stored[str(number)] for number in range(len(stored.files))]
        for output in outputs:
            digest.update(np.ascontiguousarray(output).tobytes())
        self.cells[place].digest = digest.hexdigest()[:16]
        self._outputs[place] = outputs

    def _compare(self) -> None:
        """Set the errors of all that ran, relative to the reference engine."""
        known = {
            self.cells[place].threads: outputs
            for place, outputs in self._outputs.items()
            if self.cells[place].engine == REFERENCE
        }
        for place, outputs in self._outputs.items():
            wanted = known.get(self.cells[place].threads)
            if wanted is not None and len(wanted) == len(outputs):
                pairs = zip(outputs, wanted, strict=True)
                errors = [relative_error(x.reshape(y.shape).astype(y.dtype), y) for x, y in pairs]
                self.cells[place].error = max(errors, default=0.0)

    def _process(self, cell: Cell, what: str) -> EngineProcess:
        folder = self._folder(cell)
        folder.mkdir(parents=True, exist_ok=True)
        task = {
            "do": what,
            "engine": cell.engine,
            "model": str(self.model.path),
            "threads": cell.threads,
            "cores": cell.cores,
            "folder": str(folder),
            "feed": str(self.model.feed),
            "inputs": list(self.model.shapes),
            "outputs": list(self.model.outputs),
            "shapes": self.model.shapes,
            "kinds": self.model.kinds,
        }
        return EngineProcess(sys.executable, task, folder / "log.txt")

    def _folder(self, cell: Cell) -> Path:
        return self._work / self.model.name / f"{cell.engine}-{cell.threads}"


def steady_turn(
    run: Callable[[], list[float]], speed: Callable[[], float], clock: Clock
) -> list[tuple[float, list[float]]]:
    """Attempts of a turn, each with the speed of its cores, until they kept their speed in one."""
    attempts: list[tuple[float, list[float]]] = []
    for attempt in range(TRIES):
        before = speed()
        is_last = attempt == TRIES - 1 or clock.left < PAUSE
        if before < STEADY and not is_last:
            time.sleep(PAUSE)
            continue
        if attempts and is_last and before < STEADY:
            break
        times = run()
        attempts.append((min(before, speed()), times))
        if attempts[-1][0] >= STEADY or is_last:
            break
    return attempts


def compile_all(grids: Sequence[Grid], at_once: int, clock: Clock) -> None:
    """Compile every model for every number of threads, several at once."""
    with ThreadPoolExecutor(at_once) as pool:
        waiting = [pool.submit(grid.compile, cell, clock) for grid in grids for cell in grid.own]
        for each in waiting:
            each.result()
