"""Attempts at a request: which errors another attempt may not have, and the first that succeeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import field
from time import monotonic, sleep
from typing import Any

from ray import exceptions

from afterglow.support.lazy_dataclass import dataclass

LOST = (
    exceptions.RayActorError,
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.ObjectLostError,
    exceptions.LocalRayletDiedError,
    exceptions.RaySystemError,
)
"""Errors of processes and nodes, not of the model: the same request may succeed elsewhere."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between attempts at first, and at most: the time in which an actor starts again."""

Start = Callable[[int], Sequence[Any]]
"""Begins the attempt of some number; returns the references of its results."""


@dataclass
class _Attempt:
    """One way of a request through the stages."""

    futures: list[Future[Any]]

    @property
    def left(self) -> list[Future[Any]]:
        return [future for future in self.futures if not future.done()]

    @property
    def error(self) -> BaseException | None:
        """What it failed with, if it did."""
        done = (future for future in self.futures if future.done())
        return next((error for error in (each.exception() for each in done) if error), None)


@dataclass
class Patience:
    """How long a request is tried, and after how many seconds once more at the same time."""

    seconds: float
    slow_after: float | None
    until: float = field(init=False)

    def __post_init__(self) -> None:
        self.until = monotonic() + self.seconds

    def pauses(self) -> Iterator[float]:
        """Seconds to wait before each further attempt, until the time is over."""
        pause = FIRST_PAUSE
        while monotonic() + pause < self.until:
            yield pause
            pause = min(2 * pause, LONGEST_PAUSE)


def first_result(start: Start, patience: Patience) -> list[Any]:
    """The results of the first attempt that succeeds.

    An attempt that takes too long gets company on other replicas. An error of the model itself is
    raised at once; one of a process or node is raised when the time is over.
    """
    attempts = [_begin(start, 0)]
    begun, pauses = 1, patience.pauses()
    while True:
        running = [attempt for attempt in attempts if attempt.error is None]
        complete = next((attempt for attempt in running if not attempt.left), None)
        if complete is not None:
            return [future.result() for future in complete.futures]
        if not running:
            error = attempts[-1].error
            assert error is not None
            pause = next(pauses, None) if is_lost(error) else None
            if pause is None:
                raise model_error(error)
            sleep(pause)
            attempts, begun = [_begin(start, begun)], begun + 1
            continue
        may_join = patience.slow_after is not None and len(attempts) == 1
        left = [future for attempt in running for future in attempt.left]
        done, _ = wait(left, patience.slow_after if may_join else None, FIRST_COMPLETED)
        if not done:
            attempts, begun = [*attempts, _begin(start, begun)], begun + 1


def _begin(start: Start, number: int) -> _Attempt:
    try:
        return _Attempt([reference.future() for reference in start(number)])
    except LOST as error:
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return _Attempt([failed])


def is_lost(error: BaseException) -> bool:
    """Whether a process or a node failed, perhaps that of an earlier stage."""
    cause = getattr(error, "cause", None)
    return isinstance(error, LOST) or isinstance(cause, LOST)


def model_error(error: BaseException) -> BaseException:
    """What the model raised in its process, or the error as it is."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error
