"""What a training run shows: a bar on terminals, and a line for each epoch."""

from __future__ import annotations

from time import perf_counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from afterglow.training.history import Epoch

PAUSE = 0.1
"""Seconds between changes of the bar."""


class RunDisplay:
    """Shows where a run is; use it in a `with`."""

    def __init__(
        self, epochs: int, steps: int | None, *, shown: bool = True, console: Console | None = None
    ) -> None:
        self._console = console or Console(highlight=False)
        self._epochs, self._steps, self._shown = epochs, steps, shown
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[status]}"),
            console=self._console,
            transient=True,
            disable=not (shown and self._console.is_terminal),
        )
        total = None if steps is None else epochs * steps
        self._task = self._bar.add_task("compile …", total=total, status="")
        self._changed = 0.0

    def step(self, epoch: int, done: int, loss: float, speed: float) -> None:
        """Show a step: the number of its epoch, how many steps that has had, and the loss."""
        now = perf_counter()
        if self._bar.disable or now - self._changed < PAUSE:
            return
        self._changed = now
        before = 0 if self._steps is None else (epoch - 1) * self._steps
        self._bar.update(
            self._task,
            description=f"epoch {epoch}/{self._epochs}",
            completed=before + done,
            status=f"loss {loss:.4g}, {speed:,.0f} samples/s",
        )

    def epoch(self, epoch: Epoch) -> None:
        """Print the line of an epoch."""
        if self._shown:
            self._console.print(Text(str(epoch)), soft_wrap=True)

    def note(self, text: str) -> None:
        """Print why a run ends."""
        if self._shown and text:
            self._console.print(Text(text), soft_wrap=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
