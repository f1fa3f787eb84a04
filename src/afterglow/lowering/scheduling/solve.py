"""The best order that can be found for a problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from afterglow.lowering.scheduling.orders import depth_first_order, greedy_order
from afterglow.lowering.scheduling.problem import Problem, Tracker
from afterglow.lowering.scheduling.search import Search

TRIES = 40_000
"""How many steps the search tries out for one part of a problem."""


def best_order(problem: Problem) -> list[int]:
    """An order with a low peak: in each part, never a worse one than the problem's own."""
    orders = (
        list(range(len(problem.steps))),
        depth_first_order(problem),
        greedy_order(problem),
    )
    tracker = Tracker(problem)
    start = 0
    best: list[int] = []
    for end in (*_cuts(problem), len(problem.steps)):
        part = _best_part(tracker, [order[start:end] for order in orders])
        best.extend(step for move in tracker.run_all(part) for step in move.stack)
        start = end
    return best


def _best_part(tracker: Tracker, candidates: Sequence[list[int]]) -> list[int]:
    """The best of several orders of the same steps, or a better one if there is one."""
    peaks = [_peak(tracker, order) for order in candidates]
    peak = min(peaks)
    best = candidates[peaks.index(peak)]
    return Search(tracker, best, TRIES).best_below(peak) or best


def _peak(tracker: Tracker, order: Sequence[int]) -> int:
    moves = tracker.run_all(order)
    for move in reversed(moves):
        tracker.undo(move)
    return max((move.peak for move in moves), default=0)


def _cuts(problem: Problem) -> Iterator[int]:
    """Where the steps fall apart: after each that all before it lead to, and that leads to the rest.

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
