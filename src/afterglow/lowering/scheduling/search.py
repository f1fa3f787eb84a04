"""An order of some steps within a bound, by a search that is exhaustive as far as it goes.

The live bytes depend on which steps have run, not on their order; so there is nothing to gain in a
state that was seen before. And they are submodular in that set: what a step adds can only shrink
the more has run before it. So, within a bound, a way from one state to another that has no more
bytes live is always a good one: whatever comes after, it can be done first. The search never goes
back behind such a way. It makes branches of a graph run one after the other, from valley to
valley, and trees and series-parallel graphs cost next to no backtracking.
"""

from __future__ import annotations

from collections.abc import Iterable

from afterglow.lowering.scheduling.problem import Move, Tracker
from afterglow.support.lazy_dataclass import dataclass

SHARES = 8
"""One bound may take this part of all moves: where it cannot be decided, a higher one may be."""
FEW = 80
"""Of up to so many steps, the one that adds least comes first; of more, the first one as given."""


@dataclass
class _Choice:
    """A state with other ways to go on, the best one last."""

    depth: int
    live: int
    others: list[int]


class Search:
    """Looks for ways to run given steps, starting from where a tracker is.

    After about `runs` moves of the tracker it gives up: it finishes the way that it is on, but does
    not go back for others.
    """

    def __init__(self, tracker: Tracker, steps: Iterable[int], runs: int) -> None:
        self.tracker = tracker
        waiting = [step for step in steps if not tracker.has_run[step]]
        self.bits = {step: 1 << index for index, step in enumerate(waiting)}
        self.runs = runs
        self.proven = True
        """Whether it never gave up, so that what it said is the best there is."""
        self._refused = 0
        self._path: list[Move] = []
        self._done = 0
        self._ready: set[int] = set()

    def best_below(self, peak: int) -> list[int] | None:
        """An order with the lowest peak; None if it finds none that is lower than `peak`."""
        best: list[int] | None = None
        low, last = self.tracker.live, self.tracker.runs + self.runs
        while low < peak and self.tracker.runs < last:
            bound = (low + peak) // 2
            path = self._within(bound)
            if path is None:
                low = max(self._refused, bound + 1)
            else:
                best = [step for move in path for step in move.stack]
                peak = max((move.peak for move in path), default=0)
        self.proven &= low >= peak
        return best

    def _within(self, bound: int) -> list[Move] | None:
        """A way to run all steps within a bound; None if there is none or it takes too long."""
        self._ready = {step for step in self.bits if not self.tracker.missing[step]}
        self._refused = 0
        last = self.tracker.runs + self.runs // SHARES
        found = self._explore(bound, last)
        self.proven &= found or self.tracker.runs < last
        path = list(self._path)
        self._back_to(0)
        return path if found else None

    def _explore(self, bound: int, last: int) -> bool:
        """Go down one way after the other until all steps have run; say whether that succeeded."""
        choices: list[_Choice] = []
        seen: set[int] = set()
        everything = (1 << len(self.bits)) - 1
        options = self._options(bound)
        while self._done != everything:
            if options:
                step = options.pop()
                if options:
                    choices.append(_Choice(len(self._path), self.tracker.live, options))
                self._run(step)
                while choices and choices[-1].live >= self.tracker.live:
                    choices.pop()  # whatever was possible there is possible here
                options = [] if self._done in seen else self._options(bound)
                seen.add(self._done)
            elif choices and self.tracker.runs < last:
                choice = choices.pop()
                self._back_to(choice.depth)
                options = choice.others
            else:
                return False
        return True

    def _options(self, bound: int) -> list[int]:
        """The steps that can be next, the best one last; only one if nothing is lost with it."""
        live, few = self.tracker.live, len(self.bits) <= FEW
        options: list[tuple[int, int]] = []
        for step in sorted(self._ready):
            peak, after = self.tracker.attempt(step)
            if peak > bound:
                self._refused = min(self._refused or peak, peak)
            elif after <= live:
                return [step]
            else:
                options.append((after if few else self.bits[step], step))
        options.sort(reverse=True)
        return [step for _, step in options]

    def _run(self, step: int) -> None:
        move = self.tracker.run(step)
        self._path.append(move)
        self._ready.discard(step)
        self._ready.update(opened for opened in move.opened if opened in self.bits)
        for member in move.stack:
            self._done |= self.bits.get(member, 0)

    def _back_to(self, depth: int) -> None:
        while len(self._path) > depth:
            move = self._path.pop()
            self.tracker.undo(move)
            self._ready.difference_update(move.opened)
            self._ready.add(move.stack[0])
            for member in move.stack:
                self._done &= ~self.bits.get(member, 0)
