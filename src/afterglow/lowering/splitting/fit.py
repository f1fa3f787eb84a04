"""Make a function fit a given arena: split until it does, or say how far that goes."""

from __future__ import annotations

from collections.abc import Hashable
from math import isqrt

from afterglow.graph import Function, Module
from afterglow.lowering.splitting.profile import Memory, Profile
from afterglow.lowering.splitting.rewrite import Plan
from afterglow.lowering.splitting.search import Search
from afterglow.passes import Pass
from afterglow.support.errors import UnsupportedError
from afterglow.support.lazy_dataclass import dataclass

ROUNDS = 3
"""How often what was split may be split again, inside its bands."""
SHARES = (1.0, 0.8, 0.6, 4.0)
"""Parts of the budget that may be in use around bands which must be split again."""
ATTEMPTS = 6
"""How often a lower limit is tried because buffers did not pack without gaps."""
PRECISION = 64
"""The lowest limit is found to one part in this many."""
PROBES = 3
"""How many other budgets are tried, to say which one would do."""
CLOSE = 1.2
"""A budget that does is reported once little less does not."""
MOST_NODES = 8_000
"""A function does not grow beyond this many nodes."""


class FitArena(Pass):
    """Splits nodes into bands that run one after the other, until the arena fits a budget.

    The order of the nodes is part of the result: nothing may move them afterwards.
    """

    name = "fit-arena"

    def __init__(
        self, budget: int, memory: Memory, meter: dict[Hashable, int] | None = None
    ) -> None:
        self.budget = budget
        self.memory = memory
        self.meter: dict[Hashable, int] = {} if meter is None else meter
        """What bands take that were measured before: many are alike."""

    def run(self, function: Function) -> bool:
        """See the class; only the main function has an arena."""
        if function is not function.module.main:
            return False
        plans = self._plans(function)
        for plan in plans:
            plan.apply(function)
        return bool(plans)

    def _plans(self, function: Function) -> list[Plan]:
        """Plans to apply one after the other."""
        search = Search(Profile(function, self.memory), self.memory, self.meter)
        plans, profile = self.reach(search)
        if profile.arena > self.budget:
            raise _refusal(self.budget, *self._sufficient(search))
        return plans

    def reach(self, search: Search) -> tuple[list[Plan], Profile]:
        """Plans that fit the budget, or else those that come closest, and the function then."""
        reached: list[tuple[list[Plan], Profile]] = [([], search.profile)]
        for share in SHARES:
            reached.append(self._rounds(search, int(self.budget * share)))
            if reached[-1][1].arena <= self.budget:
                return reached[-1]
        return min(reached, key=lambda found: found[1].arena)

    def _sufficient(self, search: Search) -> tuple[int, Profile]:
        """A budget that would do, about the smallest, and the function that comes out under it."""
        low, high, best = max(self.budget, 1), search.profile.arena, search.profile
        for _ in range(PROBES):
            if high <= low * CLOSE:
                break
            middle = isqrt(low * high)
            profile = FitArena(middle, self.memory, self.meter).reach(search)[1]
            if profile.arena <= middle:
                high, best = middle, profile
            else:
                low = middle
        return high, best

    def _rounds(self, search: Search, most_held: int) -> tuple[list[Plan], Profile]:
        """Split again and again; the plans, and the function that comes out."""
        plans: list[Plan] = []
        while search.profile.arena > self.budget and len(plans) < ROUNDS:
            attempt = self._best_attempt(search, most_held)
            if attempt is None:
                break
            plans.append(attempt.plan)
            search = Search(attempt.profile, self.memory, self.meter)
        return plans, search.profile

    def _best_attempt(self, search: Search, most_held: int) -> _Attempt | None:
        """The first attempt that fits, or else the smallest; None if none is any better."""
        attempts: list[_Attempt] = []
        limit = self.budget
        while len(attempts) < ATTEMPTS:
            attempt = self._attempt(search, search.within(limit))
            if attempt is None:
                break
            attempts.append(attempt)
            if attempt.profile.arena <= self.budget:
                return attempt
            limit -= attempt.profile.arena - self.budget
        lowest = None if attempts else self._attempt(search, self._lowest(search, most_held))
        attempts.extend([] if lowest is None else [lowest])
        best = min(attempts, key=lambda attempt: attempt.profile.arena, default=None)
        smaller = best is not None and best.profile.arena < search.profile.arena
        return best if smaller else None

    def _attempt(self, search: Search, plan: Plan | None) -> _Attempt | None:
        """Try a plan out on a copy."""
        if plan is None:
            return None
        function = search.profile.function.clone("main", Module())
        plan.apply(function)
        too_long = len(function) > MOST_NODES
        return None if too_long else _Attempt(plan, Profile(function, self.memory))

    def _lowest(self, search: Search, most_held: int) -> Plan | None:
        """A plan with about the lowest limit above the budget that there is a plan for."""
        best: Plan | None = None
        low, high = self.budget, search.profile.arena
        while high - low > max(1, high // PRECISION):
            limit = (low + high) // 2
            plan = search.within(limit, most_held)
            if plan is None:
                low = limit
            else:
                best, high = plan, limit
        return best


@dataclass(frozen=True)
class _Attempt:
    """A plan, and a copy of the function to which it was applied."""

    plan: Plan
    profile: Profile


def _refusal(budget: int, sufficient: int, profile: Profile) -> UnsupportedError:
    """What to say if nothing helps any more: the profile is that of a budget which is enough."""
    live = profile.live
    widest = profile.groups[live.index(max(live))]
    return UnsupportedError(
        f"the arena does not fit {budget:,} bytes, but would fit {sufficient:,}",
        where=f"in function @{profile.function.name}, where most bytes are in use:",
        excerpt=[
            f"%{node.name} = {node.op.mnemonic}(…) : {node.results[0].type}" for node in widest
        ],
        help=f"allow {sufficient:,} bytes, or make the tensors there smaller: fewer samples, "
        "rows or channels, or narrower elements",
    )
