"""Quick orders of the steps of a problem: depth first, and greedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from afterglow.lowering.scheduling.problem import Move, Problem, Tracker

PATIENCE = 16
"""How many moves may be put off together."""


def depth_first_order(problem: Problem) -> list[int]:
    """Everything just before it is needed; of what a step needs, the hungriest first.

    That is the best order of a tree: first what needs much more on the way than it leaves behind.
    """
    hunger = _hunger(problem)
    order: dict[int, None] = {}
    for root in (number for number, users in enumerate(problem.users) if not users):
        waiting = [(root, False)]
        while waiting:
            number, is_fed = waiting.pop()
            if is_fed:
                order[number] = None
            elif number not in order:
                needs = sorted(problem.steps[number].needs, key=lambda need: (hunger[need], -need))
                waiting.append((number, True))
                waiting.extend((need, False) for need in needs)
    return list(order)


def _hunger(problem: Problem) -> list[int]:
    """How many bytes more a step needs on the way than it leaves behind, if it is in a tree."""
    seen: set[int] = set()
    made: list[int] = []
    peaks: list[int] = []
    for step in problem.steps:
        made.append(sum(problem.sizes[buffer] for buffer in step.touches if buffer not in seen))
        seen.update(step.touches)
        peak = live = 0
        for need in sorted(step.needs, key=lambda s: made[s] - peaks[s]):
            peak = max(peak, live + peaks[need])
            live += made[need]
        peaks.append(max(peak, live + made[-1]))
    return [peak - left for peak, left in zip(peaks, made, strict=True)]


def postponed(problem: Problem, order: Iterable[int]) -> list[int]:
    """An order with the steps that add bytes put off until others need them."""
    tracker = Tracker(problem)
    moves: list[Move] = []
    for number in order:
        made = _run_with_needs(tracker, number)
        grown = bool(made) and tracker.live > made[0].before
        if grown and problem.users[number] and len(made) <= PATIENCE:
            for move in reversed(made):
                tracker.undo(move)
        else:
            moves += made
    return [step for move in moves for step in move.stack]


def _run_with_needs(tracker: Tracker, number: int) -> list[Move]:
    """Run a step that may have run already, and before it all that it needs."""
    moves: list[Move] = []
    waiting = [number]
    while waiting:
        step = waiting[-1]
        if tracker.has_run[step]:
            waiting.pop()
        elif tracker.missing[step]:
            needs = tracker.problem.steps[step].needs
            waiting.extend(need for need in needs if not tracker.has_run[need])
        else:
            moves.append(tracker.run(waiting.pop()))
    return moves


def greedy_order(problem: Problem) -> list[int]:
    """Of the steps that are ready, always the one after which the fewest bytes are live."""
    return list(_Greedy(problem).run())


class _Greedy:
    """List scheduling by the growth of live memory; of equals, the one that became ready last."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.tracker = Tracker(problem)
        self.touching: list[list[int]] = [[] for _ in problem.sizes]
        for number, step in enumerate(problem.steps):
            for buffer in step.touches:
                self.touching[buffer].append(number)
        self.ready: list[tuple[int, int, int]] = []
        self.pushed = 0

    def run(self) -> Iterator[int]:
        tracker = self.tracker
        for number in range(len(tracker.missing)):
            self._push(number)
        while self.ready:
            believed, _, number = heappop(self.ready)
            if tracker.has_run[number]:
                continue
            if self._growth(number) > believed:
                self._push(number)
                continue
            move = tracker.run(number)
            yield from move.stack
            for opened in move.opened:
                self._push(opened)
            for member in move.stack:
                self._push_cheaper(member)

    def _growth(self, number: int) -> int:
        return self.tracker.attempt(number)[1] - self.tracker.live

    def _push(self, number: int) -> None:
        if not self.tracker.missing[number] and not self.tracker.has_run[number]:
            heappush(self.ready, (self._growth(number), -self.pushed, number))
            self.pushed += 1

    def _push_cheaper(self, number: int) -> None:
        """Look anew at the steps whose cost a step that ran has changed.

        They touch a buffer that is live by now, or that they are the last to touch.
        """
        left, touching = self.tracker.left, self.tracker.touching
        for buffer in self.problem.steps[number].touches:
            if left[buffer] and left[buffer] in (1, touching[buffer] - 1):
                for other in self.touching[buffer]:
                    self._push(other)
