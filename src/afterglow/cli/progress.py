"""Times the stages of a command, and shows the current one on the terminal."""

from __future__ import annotations

from threading import Timer
from time import perf_counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

DELAY = 0.5
"""Seconds before progress is shown."""


class StageClock:
    """Accumulates the seconds of each stage and shows the current one; use it in a `with`.

    Call it with the name of a stage when that begins; the last stage ends with the `with` block.
    """

    def __init__(self, console: Console) -> None:
        self.seconds: dict[str, float] = {}
        self._status = console.status("…") if console.is_terminal else None
        self._timer = Timer(DELAY, self._status.start) if self._status is not None else None
        self._stage = ""
        self._started = perf_counter()

    def __call__(self, stage: str) -> None:
        """Begin a stage, and end the previous one."""
        self._end_stage()
        self._stage = stage
        if self._status is not None:
            self._status.update(f"{stage} …")

    def sample(self, done: int, total: int | None) -> None:
        """Show how many samples are done in this stage, of how many if that is known."""
        if self._status is not None:
            of = "" if total is None else f" of {total}"
            self._status.update(f"{self._stage} {done}{of} …")

    def __enter__(self) -> Self:
        if self._timer is not None:
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._status is not None:
            self._status.stop()
        self._end_stage()

    @property
    def total(self) -> float:
        """Seconds of all stages together."""
        return sum(self.seconds.values())

    def _end_stage(self) -> None:
        now = perf_counter()
        if self._stage:
            self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._started
        self._stage, self._started = "", now


class SampleBar:
    """Shows how many samples are done, and the stage of compilation before; use it in a `with`."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("read …", total=None)
        self.seconds = 0.0
        self._started = perf_counter()

    def stage(self, name: str) -> None:
        """Show the stage that begins."""
        self._bar.update(self._task, description=f"{name} …")

    def sample(self, done: int, total: int | None) -> None:
        """Show how many samples are done, of how many if that is known."""
        self._bar.update(self._task, description="run", completed=done, total=total)

    def rounding(self, done: int, total: int | None) -> None:
        """Show how many of the samples that weights are rounded by are done."""
        self._bar.update(self._task, description="sample layers", completed=done, total=total)

    def run(self, what: str, done: int, total: int | None) -> None:
        """Show what is measured, and how much of it is done."""
        self._bar.update(self._task, description=f"measure {what}", completed=done, total=total)

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
        self.seconds = perf_counter() - self._started
