"""Steps that come after others although they need nothing that those make.

What changes a state comes after what needs the old value; what is computed again, after what is
done before it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from afterglow.lowering.scheduling.problem import Step, users_of
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Late:
    """A step, and those that should run before it, by their numbers."""

    step: int
    before: frozenset[int]


def with_late_steps(
    steps: Sequence[Step], late: Iterable[Late]
) -> tuple[list[int], tuple[Step, ...]]:
    """Steps that need what must run before them, in an order that works; and their old numbers.

    One that has to come before those in any case is left as it is.
    """
    needs = [dict.fromkeys(step.needs) for step in steps]
    users = [dict.fromkeys(some) for some in users_of(steps)]
    for each in late:
        before = each.before - {each.step}
        if not before.isdisjoint(_behind(each.step, users)):
            continue
        needs[each.step].update(dict.fromkeys(sorted(before)))
        for number in before:
            users[number][each.step] = None
    order = _order(needs, users)
    place = {old: new for new, old in enumerate(order)}
    return order, tuple(
        replace(
            steps[old],
            needs=tuple(place[need] for need in needs[old]),
            joins=frozenset(place[join] for join in steps[old].joins),
        )
        for old in order
    )


def _behind(number: int, users: Sequence[Iterable[int]]) -> set[int]:
    """All steps that come after one because they need it, directly or not."""
    found = {number}
    waiting = [number]
    while waiting:
        new = [user for user in users[waiting.pop()] if user not in found]
        found.update(new)
        waiting += new
    return found - {number}


def _order(needs: Sequence[Iterable[int]], users: Sequence[Iterable[int]]) -> list[int]:
    """All steps, each after those that it needs, and otherwise as they come."""
    missing = [len([*some]) for some in needs]
    ready = [number for number, count in enumerate(missing) if not count]
    heapify(ready)
    order = []
    while ready:
        number = heappop(ready)
        order.append(number)
        for user in users[number]:
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, user)
    return order
