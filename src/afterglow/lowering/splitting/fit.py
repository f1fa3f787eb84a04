"""Make a function fit a given arena: split until it does, or say how far that goes."""

from __future__ import annotations

from dataclasses import dataclass

from afterglow.graph import Function, Module
from afterglow.lowering.splitting.profile import Memory, Profile
from afterglow.lowering.splitting.rewrite import Plan
from afterglow.lowering.splitting.search import Search
from afterglow.passes import Pass, Property
from afterglow.support.errors import UnsupportedError

ROUNDS = 3
"""How often what was split may be split again, along another axis."""
ATTEMPTS = 6
"""How often a lower limit is tried because buffers did not pack without gaps."""
import os

HELD=float(os.environ.get("HELD","0.6"))
PRECISION = 64
"""The lowest limit is found to one part in this many."""


class FitArena(Pass):
    """Splits nodes into bands that run one after the other, until the arena fits a budget.

    The order of the nodes is part of the result: nothing may move them afterwards.
    """

    name = "fit-arena"
    requires = frozenset({Property.LOWERED})

    def __init__(self, budget: int, memory: Memory) -> None:
        self.budget = budget
        self.memory = memory

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
        plans: list[Plan] = []
        profile = Profile(function, self.memory)
        while profile.arena > self.budget:
            best = self._best_attempt(profile) if len(plans) < ROUNDS else None
            if best is None:
                raise _refusal(self.budget, profile)
            plans.append(best.plan)
            profile = Profile(best.function, self.memory)
        return plans

    def _best_attempt(self, profile: Profile) -> _Attempt | None:
        """The first attempt that fits, or else the smallest; None if none is any better."""
        search = Search(profile, self.memory)
        attempts: list[_Attempt] = []
        limit = self.budget
        while len(attempts) < ATTEMPTS and (plan := search.within(limit)) is not None:
            attempts.append(self._attempt(profile, plan))
            if attempts[-1].arena <= self.budget:
                return attempts[-1]
            limit -= attempts[-1].arena - self.budget
        plan = None if attempts else _lowest(search, self.budget, profile.arena)
        if plan is not None:
            attempts.append(self._attempt(profile, plan))
        best = min(attempts, key=lambda attempt: attempt.arena, default=None)
        return best if best is not None and best.arena < profile.arena else None

    def _attempt(self, profile: Profile, plan: Plan) -> _Attempt:
        function = profile.function.clone("main", Module())
        plan.apply(function)
        return _Attempt(plan, function, self.memory.arena(function))


@dataclass(frozen=True)
class _Attempt:
    """A plan, a copy of the function to which it was applied, and what that takes."""

    plan: Plan
    function: Function
    arena: int


def _lowest(search: Search, low: int, high: int) -> Plan | None:
    """A plan with about the lowest limit between two that there is a plan for."""
    best: Plan | None = None
    budget = low
    while high - low > high // PRECISION:
        limit = (low + high) // 2
        plan = search.within(limit, int(budget * HELD))
        if plan is None:
            low = limit
        else:
            best, high = plan, limit
    return best


def _refusal(budget: int, profile: Profile) -> UnsupportedError:
    """What to say if nothing helps any more."""
    live = profile.live
    widest = profile.groups[live.index(max(live))]
    return UnsupportedError(
        f"the arena does not fit {budget:,} bytes: {profile.arena:,} is the least that splitting "
        f"gets to",
        where=f"at {', '.join(f'%{node.name}' for node in widest)}",
        excerpt=[f"{node.op.mnemonic} : {node.results[0].type}" for node in widest],
        help=f"allow {profile.arena:,} bytes, or make the model's tensors smaller: fewer rows, "
        "channels or samples, or narrower elements",
    )
