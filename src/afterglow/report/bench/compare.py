"""Compares engines: each loads the model, then they take turns until the time is up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from afterglow.report.agreement import relative_error
from afterglow.report.bench.engine_process.registry import OURS
from afterglow.report.bench.engine_process.serve import FEED, RESULTS
from afterglow.report.bench.engines import how_to_install
from afterglow.report.bench.measurement import Measurement
from afterglow.report.bench.process import EngineError, EngineProcess, MissingError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.own_ops import own_op_files
from afterglow.types import Array
from afterglow.types.extent import Dim

ROUNDS = 5
"""Number of turns of each engine."""
TIMEOUT = 600.0
"""Seconds that an engine may take to compile or load a model."""
CONCURRENT = ("onnxruntime", "openvino")
"""Other engines whose models several threads may call at once."""
SLOW_CALL = 10.0
"""If the first call takes more seconds than this, there is only one more."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class BenchPlan:
    """A comparison to run: model, inputs, engines, threads and time."""

    model: str
    feed: Mapping[str, Array]
    outputs: tuple[str, ...]
    """All that the model returns."""
    peers: tuple[str, ...]
    threads: int
    seconds: float
    """Time for each engine, over all of its turns."""
    python: str
    """The Python interpreter for Afterglow."""
    peer_python: str
    """The Python interpreter for the other engines."""
    keep: Path | None = None
    """Folder in which files that engines compile ahead of time are kept for reuse."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options for compiling with Afterglow, as `describe_options` returns them."""
    ranges: Mapping[str, Dim] = field(default_factory=dict)
    """Bounds of dimensions that Afterglow's program is for, by name."""
    peer_model: str = ""
    """The model as other engines read it, if that is another file."""
    warmup: float = 0.0
    """Seconds that each engine runs before it is timed."""
    clients: int = 1
    """Threads that call each engine at the same time."""
    streams: int = 1
    """Calls that have threads of their own at the same time."""
    kept: tuple[str, ...] = ()
    """Outputs that Afterglow keeps as state: other engines' are not compared."""


def compare(plan: BenchPlan, progress: Progress = lambda text: None) -> list[Measurement]:
    """Measurements of Afterglow and then of the other engines, interleaved in one run."""
    with TemporaryDirectory(prefix="afterglow-bench-") as folder:
        np.savez(Path(folder) / FEED, **dict(plan.feed))  # type: ignore[arg-type]  # NumPy's stub
        runs = [_Run(name, plan, Path(folder)) for name in (OURS, *plan.peers)]
        _measure(runs, plan, progress)
        _compare_results(runs)
        return [run.measured for run in runs]


def compare_streams(
    plan: BenchPlan, counts: Sequence[int], progress: Progress = lambda text: None
) -> list[Measurement]:
    """Measurements of Afterglow with several numbers of streams, which divide the plan's threads.

    Each has as many clients as streams; they take turns.
    """
    with TemporaryDirectory(prefix="afterglow-bench-") as folder:
        np.savez(Path(folder) / FEED, **dict(plan.feed))  # type: ignore[arg-type]  # NumPy's stub
        runs = []
        for count in counts:
            own = replace(plan, threads=max(1, plan.threads // count), streams=count, clients=count)
            own = replace(own, keep=Path(folder) / f"{count}")
            runs.append(_Run(OURS, own, Path(folder), f"streams {count}"))
        _measure(runs, plan, progress)
        return [run.measured for run in runs]


def _measure(runs: Sequence[_Run], plan: BenchPlan, progress: Progress) -> None:
    try:
        _load(runs, progress)
        _take_turns(runs, plan, progress)
    finally:
        for run in runs:
            run.close()


def _load(runs: Sequence[_Run], progress: Progress) -> None:
    for run in runs:
        progress(f"{run.title}: compile and load")
        run.attempt(run.start)


def _take_turns(runs: Sequence[_Run], plan: BenchPlan, progress: Progress) -> None:
    for run in runs if plan.warmup else ():
        progress(f"{run.title}: warm up")
        run.attempt(partial(run.warm_up, plan.warmup))
    for number in range(ROUNDS):
        for run in runs:
            progress(f"{run.title}: turn {number + 1} of {ROUNDS}")
            run.attempt(partial(run.turn, plan.seconds / ROUNDS))


def _compare_results(runs: Sequence[_Run]) -> None:
    """Set the error of each engine, relative to the first other engine that ran."""
    reference = next((run for run in runs[1:] if run.results is not None), None)
    if reference is None or reference.results is None:
        return
    for run in runs:
        if run is not reference and run.results is not None:
            run.measured.error = _largest_error(run.results, reference.results)


def _largest_error(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """The largest error of all outputs; element types may differ between engines."""
    if len(ours) != len(theirs):
        return float("inf")
    errors = [0.0]
    for mine, wanted in zip(ours, theirs, strict=True):
        same_size = mine.size == wanted.size
        mine = mine.reshape(wanted.shape) if same_size else mine
        errors.append(relative_error(mine.astype(wanted.dtype), wanted))
    return max(errors)


def _model_for(engine: str, plan: BenchPlan) -> str:
    return plan.model if engine == OURS else plan.peer_model or plan.model


class _Run:
    """One engine running the model: its process, and the measurement so far."""

    def __init__(self, name: str, plan: BenchPlan, folder: Path, title: str = "") -> None:
        self.title = title or name
        self.measured = Measurement(name, plan.threads, clients=plan.clients)
        if plan.clients > 1 and name not in (OURS, *CONCURRENT):
            self.measured.problem = "it is not timed with several clients"
        self.results: list[Array] | None = None
        self._python = plan.python if name == OURS else plan.peer_python
        self._folder = (plan.keep or folder).absolute() / name
        self._seconds = plan.seconds
        self._kept = plan.kept
        self._process: EngineProcess | None = None
        self._task: dict[str, Any] = {
            "engine": name,
            "model": str(Path(_model_for(name, plan)).absolute()),
            "threads": plan.threads,
            "streams": plan.streams,
            "folder": str(self._folder),
            "feed": str(folder / FEED),
            "inputs": list(plan.feed),
            "outputs": list(plan.outputs),
            "shapes": {key: array.shape for key, array in plan.feed.items()},
            "kinds": {key: array.dtype.name for key, array in plan.feed.items()},
            "options": dict(plan.options),
            "ops": own_op_files() if name == OURS else [],
            "ranges": {n: (dim.low, dim.high, dim.step) for n, dim in plan.ranges.items()},
        }

    def attempt(self, action: Callable[[], None]) -> None:
        """Run the action unless the engine failed before; record a failure in the measurement."""
        if self.measured.problem:
            return
        try:
            action()
        except MissingError as error:
            self.measured.problem = f"{error} is not installed"
            if self.measured.engine != OURS:
                self.measured.help = how_to_install(self.measured.engine, self._python)
        except EngineError as error:
            self.measured.problem = str(error)

    def start(self) -> None:
        """Compile ahead of time in one process, load and run once in another."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._begin("build") as process:
            self._note(process.read(TIMEOUT))
        self._process = self._begin("serve")
        self._note(self._process.read(TIMEOUT))
        self._process.freeze()
        with np.load(self._folder / RESULTS) as stored:
            results = [stored[str(place)] for place in range(len(stored.files))]
        self.results = results if self.measured.engine == OURS else self._compared(results)

    def _compared(self, results: list[Array]) -> list[Array]:
        """Those results that Afterglow returns, too."""
        if not self._kept or len(results) != len(self._task["outputs"]):
            return results
        named = zip(self._task["outputs"], results, strict=True)
        return [result for name, result in named if name not in self._kept]

    def turn(self, seconds: float) -> None:
        """Time the engine for one turn, unless its slow calls have used up all turns already."""
        is_slow = (self.measured.first_seconds or 0.0) > SLOW_CALL
        if sum(self.measured.times) > (0.0 if is_slow else 2 * self._seconds):
            return
        answer = self._asked(seconds, warm=not is_slow)
        self.measured.times += answer["times"]
        self.measured.turns.append(answer["times"])
        self.measured.busy_seconds += answer["busy_seconds"]
        self.measured.peak_bytes = answer["peak_bytes"]

    def warm_up(self, seconds: float) -> None:
        """Run for a while without counting it."""
        self._asked(seconds, warm=False)

    def _asked(self, seconds: float, *, warm: bool) -> dict[str, Any]:
        assert self._process is not None
        asked = {"seconds": seconds, "warm": warm, "clients": self.measured.clients}
        return self._process.ask(asked, TIMEOUT)

    def close(self) -> None:
        """Terminate the process."""
        if self._process is not None:
            self._process.close()

    def _begin(self, what: str) -> EngineProcess:
        return EngineProcess(self._python, {**self._task, "do": what}, self._folder / "log.txt")

    def _note(self, answer: Mapping[str, Any]) -> None:
        for name, value in answer.items():
            setattr(self.measured, name, value)
