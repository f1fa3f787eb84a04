"""What a loop says about the integers in its body: by how much it moves what it carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from afterglow.graph import Constant, Function, Node, Value
from afterglow.ops.elementwise import And, Less, LessEqual
from afterglow.ops.linear_forms import Condition, Interval, LinearForm, LinearForms, Unknown


@dataclass(frozen=True)
class Carried:
    """What a loop carries: as its body sees it, as it begins, and as the body returns it."""

    inside: Value
    first: Value
    after: Value


@dataclass(frozen=True)
class LoopFacts:
    """A loop around a body: the iteration's number, how often it runs at most, what it carries.

    `goes_on` is what the body returns to say whether to go on, if it does.
    """

    body: Function
    iteration: Value
    trips: float
    carried: Sequence[Carried]
    goes_on: Value | None = None


def deciding_values(loop: LoopFacts) -> list[Value]:
    """What decides how often a loop runs besides its limit: inputs of the body, and first values.

    What it carries counts only as far as whether to go on depends on it.
    """
    carried = {each.inside: each for each in loop.carried}
    found: dict[Value, None] = {}
    seen: set[Value] = set()
    waiting = [] if loop.goes_on is None else [loop.goes_on]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in carried:
            found[carried[value].first] = None
            waiting.append(carried[value].after)
        elif value.producer is not None:
            waiting.extend(value.producer.given)
        elif value is not loop.iteration and not isinstance(value, Constant):
            found[value] = None
    return list(found)


def conditions_left(
    forms: LinearForms, loop: LoopFacts, conditions: Sequence[Condition]
) -> list[Condition] | None:
    """Of conditions in the body of a loop those that outer loops must decide; None if one fails."""
    forms.ranges[loop.iteration, 0] = Interval(0, loop.trips - 1)
    forms.open.difference_update(loop.body.inputs)
    known = _carried_forms(forms, loop)
    without_overflow = [
        condition
        for each in loop.carried
        for value in (each.first, each.after)
        for condition in forms.conditions_of(value)
    ]
    left = []
    for condition in (*conditions, *(without_overflow if conditions else ())):
        outer = Condition(condition.form.with_forms(known), condition.within)
        if forms.holds(outer):
            continue
        if not forms.may_hold(outer):
            return None
        left.append(outer)
    return left


def _carried_forms(forms: LinearForms, loop: LoopFacts) -> dict[Unknown, LinearForm]:
    """What each carried element is in each iteration, where it moves by the same each time.

    Of others, bounds are noted with the forms. Both take for granted that nothing overflows.
    """
    found: dict[Unknown, LinearForm] = {}
    for each in loop.carried:
        starts, ends = forms.of(each.first) or (), forms.of(each.after) or ()
        if len(starts) != len(ends):  # types differ: the op refuses that, when it is added
            continue
        for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
            unknown = (each.inside, index)
            step = end - LinearForm(0, {unknown: 1})
            if step.terms:
                forms.ranges[unknown] = forms.interval(start).hull(forms.interval(end))
            elif not step.constant or loop.trips < inf:
                found[unknown] = start + LinearForm(0, {(loop.iteration, 0): 1}).scaled(
                    step.constant
                )
            else:
                forms.ranges[unknown] = _while_it_goes_on(forms, loop, unknown, start, step)
    forms.ranges.update((unknown, forms.interval(form)) for unknown, form in found.items())
    return found


def _while_it_goes_on(
    forms: LinearForms, loop: LoopFacts, unknown: Unknown, start: LinearForm, step: LinearForm
) -> Interval:
    """Where an element is that moves until the body says so: at the start, or within its bound."""
    first = forms.interval(start)
    next_one = LinearForm(step.constant, {unknown: 1})
    bounds = Interval()
    for lesser, greater, gap in _comparisons(loop.goes_on):
        pair = forms.of(lesser), forms.of(greater)
        if pair[0] is None or pair[1] is None:
            continue
        below, above = pair[0][0] - next_one, pair[1][0] - next_one
        if not below.terms:
            most = forms.interval(pair[1][0]).high - gap - below.constant
            bounds = Interval(bounds.low, min(bounds.high, most))
        elif not above.terms:
            least = forms.interval(pair[0][0]).low + gap - above.constant
            bounds = Interval(max(bounds.low, least), bounds.high)
    if step.constant > 0:
        return Interval(first.low, max(first.high, bounds.high))
    return Interval(min(first.low, bounds.low), first.high)


def _comparisons(value: Value | None) -> list[tuple[Value, Value, int]]:
    """Pairs of which one is less than the other by so much at least, where a boolean is true."""
    found: list[tuple[Value, Value, int]] = []
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if value is None or value in seen or value.type.size != 1:
            continue
        seen.add(value)
        match value.producer:
            case Node(Less() | LessEqual() as op, [Value() as lesser, Value() as greater]):
                found.append((lesser, greater, 1 if isinstance(op, Less) else 0))
            case Node(And(), [Value() as one, Value() as other]):
                waiting += [one, other]
    return found
