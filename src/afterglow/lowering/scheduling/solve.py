"""The best order that can be found for a problem."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from afterglow.lowering.scheduling.orders import depth_first_order, greedy_order, postponed
from afterglow.lowering.scheduling.problem import Move, Problem, Tracker
from afterglow.lowering.scheduling.search import Search

RUNS = 400_000
"""Moves that may be tried out to improve an order: a few seconds."""
SEARCH_RUNS = 40_000
"""Moves that one search may try out."""
WIDTHS = (24, 80, 240)
"""How many moves before a peak and after it are put in another order at once."""


def best_order(problem: Problem) -> list[int]:
    """An order with a low peak: in each part, never a worse one than the problem's own."""
    own = list(range(len(problem.steps)))
    quick = [own, depth_first_order(problem), greedy_order(problem)]
    orders = [*quick, *(postponed(problem, order) for order in quick)]
    cuts = [*cut_points(problem), len(own)]
    tracker = Tracker(problem)
    moves: list[Move] = []
    for start, end in zip([0, *cuts], cuts, strict=False):
        moves += _run_best(tracker, [order[start:end] for order in orders])
    return _Improver(tracker, moves, cuts).run()


def _run_best(tracker: Tracker, orders: Sequence[Sequence[int]]) -> list[Move]:
    """Run the best of several orders of the same steps, the first of equals."""
    peaks = [_peak(tracker, order) for order in orders]
    return tracker.run_all(orders[peaks.index(min(peaks))])


def _peak(tracker: Tracker, order: Sequence[int]) -> int:
    moves = tracker.run_all(order)
    for move in reversed(moves):
        tracker.undo(move)
    return max((move.peak for move in moves), default=0)


def cut_points(problem: Problem) -> Iterator[int]:
    """Where a problem falls apart: after steps that all before lead to, and that lead to the rest.

    Whatever the order, the steps up to there come first, so each part is a problem of its own.
    """
    count = len(problem.steps)
    needed = [count] * (count + 1)
    """For each step, the earliest of what the steps from there on need last."""
    for number in reversed(range(count)):
        needed[number] = min(max(problem.steps[number].needs, default=-1), needed[number + 1])
    reached = 0
    for number in range(count):
        if reached <= number <= needed[number + 1]:
            yield number + 1
        reached = max(reached, min(problem.users[number], default=count))


class _Improver:
    """Takes the highest peak of an order, and searches for a better order around it.

    `moves` is how the tracker came to where it is; it goes back and forth along them.
    """

    def __init__(self, tracker: Tracker, moves: list[Move], cuts: Sequence[int]) -> None:
        self.tracker = tracker
        self.moves = moves
        self.cuts = cuts
        self.position = len(moves)

    def run(self) -> list[int]:
        last = self.tracker.runs + RUNS
        while self.tracker.runs < last and self._improve():
            pass
        return _steps(self.moves)

    def _improve(self) -> bool:
        """Lower the highest peak, if that is possible."""
        peaks = [move.peak for move in self.moves]
        peak = max(peaks, default=0)
        return peak > 0 and any(
            self._reorder(start, end, peak) for start, end in self._windows(peaks.index(peak))
        )

    def _reorder(self, start: int, end: int, peak: int) -> bool:
        """Put some moves in an order with a lower peak, if that is possible."""
        self._go_to(start)
        steps = _steps(self.moves[start:end])
        better = Search(self.tracker, steps, SEARCH_RUNS).best_below(peak)
        if better is None:
            return False
        self._replace(start, end, better)
        if len(better) > len(steps):  # some that came later joined: they must not come again
            self._replace(self.position, len(self.moves), _steps(self.moves[self.position :]))
        return True

    def _go_to(self, position: int) -> None:
        for move in reversed(self.moves[position : self.position]):
            self.tracker.undo(move)
        self.tracker.run_all(_steps(self.moves[self.position : position]))
        self.position = position

    def _replace(self, start: int, end: int, steps: Sequence[int]) -> None:
        moves = self.tracker.run_all(steps)
        self.moves[start:end] = moves
        self.position = start + len(moves)

    def _windows(self, at: int) -> Iterator[tuple[int, int]]:
        """Ever more moves around one, up to all of the part that it is in."""
        before = [0, *accumulate(len(move.stack) for move in self.moves)]
        part = bisect_right(self.cuts, before[at])
        first = bisect_left(before, self.cuts[part - 1] if part else 0)
        last = bisect_left(before, self.cuts[part])
        for width in WIDTHS:
            start, end = max(first, at - width), min(last, at + width)
            yield start, end
            if (start, end) == (first, last):
                return


def _steps(moves: Sequence[Move]) -> list[int]:
    return [step for move in moves for step in move.stack]
