"""What is scheduled: steps that touch buffers, and how many bytes are live while they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import NamedTuple

from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Step:
    """Something that runs at one time. Buffers and steps go by their numbers."""

    touches: tuple[int, ...] = ()
    """The buffers that it reads or writes, each once."""
    needs: tuple[int, ...] = ()
    """The steps that must run before it, each once."""
    joins: frozenset[int] = frozenset()
    """Those of them that it forms one kernel with, if it runs right after them."""
    yields: tuple[int, ...] = ()
    """Buffers that it reads and whose memory a result may take over, if nobody needs them after."""


@dataclass(frozen=True)
class Problem:
    """Steps in an order that works, and the buffers that they touch.

    A buffer is live from the first step that touches it to the last; one that is `live_out`, to the
    end. So the concatenation whose parts are made in their places is one buffer, which many steps
    touch, and so is a tensor together with all views of it.
    """

    sizes: tuple[int, ...]
    steps: tuple[Step, ...]
    live_out: frozenset[int] = frozenset()
    users: tuple[tuple[int, ...], ...] = field(init=False)
    """For each step, those that need it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", users_of(self.steps))

    def peak(self, order: Iterable[int]) -> int:
        """The most bytes that are live at once; joined steps may come at any later place."""
        return max((move.peak for move in Tracker(self).run_all(order)), default=0)


def users_of(steps: Sequence[Step]) -> tuple[tuple[int, ...], ...]:
    """For each step, those that need it."""
    users: list[list[int]] = [[] for _ in steps]
    for number, step in enumerate(steps):
        for needed in step.needs:
            users[needed].append(number)
    return tuple(map(tuple, users))


class Move(NamedTuple):
    """A step that ran, with all that joined it."""

    stack: tuple[int, ...]
    opened: tuple[int, ...]
    """The steps that nothing holds back from now on."""
    before: int
    """The bytes live before it."""
    peak: int
    """The bytes live while it runs."""


class Tracker:
    """Which steps have run, and how many bytes are live; can go back."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.live = 0
        self.runs = 0
        """How many moves were made in all, also those taken back: the work that was done."""
        self.has_run = [False] * len(problem.steps)
        self.missing = [len(step.needs) for step in problem.steps]
        """For each step, how many of those it needs have not run."""
        self.touching = [int(buffer in problem.live_out) for buffer in range(len(problem.sizes))]
        """For each buffer, how many steps touch it; that it is live_out counts as one more."""
        for step in problem.steps:
            for buffer in step.touches:
                self.touching[buffer] += 1
        self.left = list(self.touching)
        """For each buffer, how many of them have not run."""
        self._touches = [step.touches for step in problem.steps]

    def run_all(self, order: Iterable[int]) -> list[Move]:
        """Run the steps of an order that have not run yet."""
        return [self.run(step) for step in order if not self.has_run[step]]

    def run(self, step: int) -> Move:
        """Run a step that is ready, and all that then can join it."""
        self.runs += 1
        before = self.live
        stack, opened = self._stack(step)
        spare = self._spare(stack)
        started: list[int] = []
        sizes, left, touching = self.problem.sizes, self.left, self.touching
        for member in stack:
            self.has_run[member] = True
            for buffer in self._touches[member]:
                if left[buffer] == touching[buffer]:
                    started.append(buffer)
                    self.live += sizes[buffer]
                left[buffer] -= 1
                if not left[buffer]:
                    self.live -= sizes[buffer]
        made = [sizes[b] for b in started if left[b] or touching[b] == 1]  # not inside the stack
        return Move(tuple(stack), tuple(opened), before, before + _added(made, spare))

    def undo(self, move: Move) -> None:
        """Take back the move that was made last."""
        for member in move.stack:
            self.has_run[member] = False
            for buffer in self._touches[member]:
                self.left[buffer] += 1
            for user in self.problem.users[member]:
                self.missing[user] += 1
        self.live = move.before

    def attempt(self, step: int) -> tuple[int, int]:
        """The bytes that would be live while a step runs, and after it."""
        move = self.run(step)
        after = self.live
        self.undo(move)
        return move.peak, after

    def _stack(self, step: int) -> tuple[list[int], list[int]]:
        """The step and all that join it, and what else need not wait any longer."""
        stack, opened = [step], list[int]()
        for member in stack:  # grows on the way
            for user in self.problem.users[member]:
                self.missing[user] -= 1
                if not self.missing[user]:
                    joins = member in self.problem.steps[user].joins
                    (stack if joins else opened).append(user)
        return stack, opened

    def _spare(self, stack: Sequence[int]) -> list[int]:
        """The sizes of the buffers that live for the stack alone, and may be taken over."""
        sizes: list[int] = []
        for member in stack:
            for buffer in self.problem.steps[member].yields:
                if self.left[buffer] == 1 < self.touching[buffer]:
                    sizes.append(self.problem.sizes[buffer])
        return sizes


def _added(made: list[int], spare: list[int]) -> int:
    """The bytes of what was made, less what found its place in memory that is spare."""
    for room in spare:
        fitting = max((size for size in made if size <= room), default=None)
        if fitting is not None:
            made.remove(fitting)
    return sum(made)
