"""A training run: epochs of steps, with validation, early stopping and checkpoints."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from afterglow.optim import Optimizer, rate_at
from afterglow.support.errors import TrainingError, UsageError, warn
from afterglow.support.lazy_dataclass import dataclass
from afterglow.training.checkpoint import Checkpoint, Checkpoints, changed
from afterglow.training.data import Batches
from afterglow.training.early_stopping import EarlyStopping, Watch
from afterglow.training.history import Epoch, History
from afterglow.training.metrics import Means, Metric
from afterglow.training.programs import Programs
from afterglow.training.progress import RunDisplay
from afterglow.types import Array

Callback: TypeAlias = Callable[[Epoch], Any]
"""Called after each epoch; a run ends if it returns True."""


@dataclass
class Place:
    """Where a run is: the epoch, how many of its steps are done, and what they gave."""

    epoch: int
    means: Means
    steps: int = 0
    seconds: float = 0.0


def measure(programs: Programs, data: Batches, metrics: Sequence[Metric]) -> Means:
    """Loss and metrics of all batches, as the model infers."""
    means = Means(metrics)
    for batch in data.epoch(1):
        result = programs.evaluate(batch)
        add_batch(means, programs, batch, result.loss, result.outputs)
    if not means.samples:
        raise UsageError("the data has no batches: there is nothing to evaluate")
    return means


def add_batch(
    means: Means,
    programs: Programs,
    batch: Mapping[str, Array],
    loss: float,
    outputs: tuple[Array, ...],
) -> None:
    """Add a batch to the means, with one array or a tuple of several, as metrics are told."""
    targets = tuple(batch[target.name] for target in programs.fields.targets)
    rows = len(batch[programs.fields.inputs[0].name])
    means.add(loss, rows, alone(outputs), alone(targets))


def alone(arrays: tuple[Array, ...]) -> Any:
    """The only array, or all of them."""
    return arrays[0] if len(arrays) == 1 else arrays


@dataclass
class Run:
    """Trains until the last epoch is done, or something stops it."""

    programs: Programs
    optimizer: Optimizer
    data: Batches
    metrics: Sequence[Metric]
    epochs: int
    place: Place
    display: RunDisplay
    settings: Mapping[str, Any]
    step: int
    """How many steps were done."""
    validation: Batches | None = None
    early_stopping: EarlyStopping | None = None
    checkpoints: Checkpoints | None = None
    callbacks: Sequence[Callback] = ()
    history: History = field(default_factory=History)
    best: Mapping[str, Array] = field(default_factory=dict)
    watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = Watch(self.early_stopping or EarlyStopping())

    def run(self) -> History:
        """All epochs that are left; the history."""
        with self.display, interruptible() as is_interrupted:
            while len(self.history) < self.epochs and not self.history.stopped:
                self._epoch(is_interrupted)
            self.display.note(self.history.stopped)
        if self.best and not is_interrupted():
            self.programs.restore(self.best, {})
        return self.history

    def _epoch(self, is_interrupted: Callable[[], bool]) -> None:
        """The rest of an epoch."""
        place = self.place
        for batch in self.data.epoch(place.epoch, skip=place.steps):
            self._step(batch)
            if is_interrupted():
                self._save()
                self.history.stopped = f"interrupted after step {self.step}, in epoch {place.epoch}"
                return
            if self._is_due():
                self._save()
        if not place.means.samples:
            raise UsageError(f"epoch {place.epoch} has no batches: there is nothing to learn from")
        self._end_epoch()

    def _is_due(self) -> bool:
        """Whether a checkpoint is saved after this step."""
        every = self.checkpoints.every if self.checkpoints else 0
        return bool(every) and self.step % every == 0

    def _step(self, batch: Mapping[str, Array]) -> None:
        """Learn from a batch."""
        place, rate = self.place, rate_at(self.optimizer, self.step)
        self.programs.prepare(batch)
        started = perf_counter()
        result = self.programs.train(batch, rate)
        if not math.isfinite(result.loss):
            raise self._no_number(batch, result.loss, rate)
        add_batch(place.means, self.programs, batch, result.loss, result.outputs)
        self.step += 1
        place.steps += 1
        place.seconds += perf_counter() - started
        speed = place.means.samples / place.seconds
        self.display.step(len(self.history) + 1, place.steps, place.means.loss, speed)

    def _no_number(self, batch: Mapping[str, Array], loss: float, rate: float) -> TrainingError:
        """The error about a loss that is not finite, by the data or by steps that are too large."""
        floats = (name for name, array in batch.items() if array.dtype.kind == "f")
        odd = next((name for name in floats if not np.isfinite(batch[name]).all()), None)
        advice = "lower the learning rate, let it rise slowly at first, or clip gradients"
        if odd is not None:
            advice = f"{odd!r} of this batch is not finite either: look at the data"
        elif self.step == 0:
            advice = f"it is so before anything was learnt: look at the data, or {advice}"
        files = self.checkpoints.files() if self.checkpoints else []
        return TrainingError(
            f"the loss is {loss} in step {self.step + 1}, in epoch {self.place.epoch}, "
            f"with the learning rate {rate:.4g}",
            help=advice + (f"; {files[0]} is from before" if files else ""),
        )

    def _end_epoch(self) -> None:
        row = self._row()
        self.history.epochs.append(row)
        is_best = self.watch.see(row)
        if self.early_stopping and self.early_stopping.restore_best and is_best:
            self.best = self.programs.weights()
        self.place = Place(row.epoch + 1, Means(self.metrics))
        self.history.stopped = self._reason_to_stop(row)
        self._save(is_best=is_best)
        self.display.epoch(row)

    def _row(self) -> Epoch:
        place = self.place
        judged = None
        if self.validation is not None:
            judged = measure(self.programs, self.validation, self.metrics)
        return Epoch(
            place.epoch,
            place.steps,
            place.means.loss,
            rate_at(self.optimizer, self.step - 1),
            place.seconds,
            place.means.samples,
            place.means.values,
            None if judged is None else judged.loss,
            {} if judged is None else judged.values,
        )

    def _reason_to_stop(self, row: Epoch) -> str:
        """Why this epoch is the last; empty if it is not."""
        answers = [callback(row) for callback in self.callbacks]
        if any(answer is True for answer in answers):
            return f"stopped after epoch {row.epoch} by a callback"
        if self.early_stopping and self.watch.is_over:
            name = self.watch.name(row)
            return f"stopped after epoch {row.epoch}: {name} was best in epoch {self.watch.epoch}"
        return ""

    def _save(self, *, is_best: bool = False) -> None:
        if self.checkpoints is not None:
            self.checkpoints.save(self._checkpoint(), is_best=is_best)

    def _checkpoint(self) -> Checkpoint:
        place = self.place
        progress = {
            "epoch": place.epoch,
            "steps": place.steps,
            "seconds": place.seconds,
            "sums": place.means.sums,
            "data": self.data.about,
            "history": self.history.data(),
            "watch": self.watch.data(),
        }
        programs = self.programs
        return Checkpoint(
            self.step, programs.weights(), programs.slots(), self.best, self.settings, progress
        )

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on where a checkpoint was saved."""
        progress = checkpoint.progress
        self._check_resumable(checkpoint)
        restore(self.programs, checkpoint)
        self.step = checkpoint.step
        self.best = checkpoint.best if self.early_stopping else {}
        self.history = History.of_data(progress["history"])
        self.watch = Watch(self.watch.rule, **progress["watch"])
        means = Means(self.metrics, {n: [*sums] for n, sums in progress["sums"].items()})
        self.place = Place(progress["epoch"], means, progress["steps"], progress["seconds"])
        if not (self.early_stopping and self.watch.is_over):
            self.history.stopped = ""

    def _check_resumable(self, checkpoint: Checkpoint) -> None:
        """Warn of what differs, and refuse to go on in an epoch that has other batches."""
        progress = checkpoint.progress
        if not progress:
            raise UsageError(
                "the checkpoint is not of a run: there is nothing to resume",
                help="load it with Trainer.load, and train in another folder",
            )
        other = changed(progress["data"], self.data.about)
        if other and progress["steps"]:
            raise UsageError(
                f"the run stopped in epoch {progress['epoch']}, whose batches were others",
                excerpt=other,
                help="finish the epoch with the data it began with",
            )
        for difference in (*changed(checkpoint.settings, self.settings), *other):
            warn(f"the run is resumed with another {difference}")


def restore(programs: Programs, checkpoint: Checkpoint) -> None:
    """Have the weights and the optimizer's states of a checkpoint."""
    checkpoint.check_arrays(programs.weights(), programs.slots())
    programs.restore(checkpoint.weights, checkpoint.slots)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C be asked for, and only the second raise; in the main thread alone."""
    pressed: list[int] = []

    def press(number: int, frame: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
