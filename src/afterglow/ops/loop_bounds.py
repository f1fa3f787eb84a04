"""What a loop says about the integers in its body: by how much it moves what it carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from afterglow.graph import Constant, Function, Node, Value
from afterglow.ops.control import If
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import And, Less, LessEqual
from afterglow.ops.linear_forms import Condition, Interval, LinearForm, LinearForms, Unknown
from afterglow.ops.movement import Expand, Reshape
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32
from afterglow.types.extent import is_ranged, largest, smallest

_EXACT = 2**24
"""Up to here integers are compared as they are, also if they were converted to floats."""


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


def runs_to_limit(
    forms: LinearForms, loop: LoopFacts, limit: int, first: Callable[[Unknown], int | None]
) -> bool:
    """Whether the body says to go on in all iterations but the last that a limit allows.

    `first` is what an element is outside of the body, a number or an extent, if that is known.
    """
    comparisons, all_known = _conjunction(loop.goes_on)
    return all_known and all(
        _holds_until(forms, loop, limit, first, comparison) for comparison in comparisons
    )


def most_trips(
    forms: LinearForms, loop: LoopFacts, first: Callable[[Unknown], int | None]
) -> float:
    """How often a loop runs at most: by its limit, and until what it counts reaches a bound."""
    found = loop.trips
    for lesser, greater, gap in comparisons(loop.goes_on):
        below, above = (_course(forms, loop, value, first) for value in (lesser, greater))
        if below is None or above is None:
            continue
        slack, change = above[0] - below[0] - gap, above[1] - below[1]
        if not is_ranged(change) and change < 0 and largest(slack) <= _EXACT:
            # it holds behind iteration t, counted from 0, as long as slack + t * change >= 0
            found = min(found, max(largest(slack), -1) // -change + 2)
    return found


def _holds_until(
    forms: LinearForms,
    loop: LoopFacts,
    limit: int,
    first: Callable[[Unknown], int | None],
    comparison: tuple[Value, Value, int],
) -> bool:
    """Whether a comparison holds in every iteration before the last one."""
    *pair, gap = comparison
    lesser, greater = (_course(forms, loop, value, first) for value in pair)
    if lesser is None or greater is None:
        return False
    slack, change = greater[0] - lesser[0] - gap, greater[1] - lesser[1]
    last = lesser[0] + limit * max(lesser[1], 0)
    least = slack + (limit - 2) * change if change < 0 else slack
    return smallest(least) >= 0 and largest(last) <= _EXACT


def _course(
    forms: LinearForms, loop: LoopFacts, value: Value, first: Callable[[Unknown], int | None]
) -> tuple[int, int] | None:
    """What a value is in the first iteration, and by how much each moves it, if that is known."""
    found = forms.of(value)
    if found is None:
        return None
    start, step = found[0].constant, 0
    for unknown, factor in found[0].terms.items():
        begins, moves = _moving(forms, loop, unknown, first)
        if begins is None or moves is None:
            return None
        start, step = start + factor * begins, step + factor * moves
    return start, step


def _moving(
    forms: LinearForms, loop: LoopFacts, unknown: Unknown, first: Callable[[Unknown], int | None]
) -> tuple[int | None, int | None]:
    """Where an element begins and by how much each iteration moves it, as far as it is known."""
    value, index = unknown
    if value is loop.iteration:
        return 0, 1
    for each in loop.carried:
        if each.inside is value:
            after = forms.of(each.after)
            step = None if after is None else after[index] - LinearForm(0, {unknown: 1})
            moves = None if step is None or step.terms else step.constant
            return first((each.first, index)), moves
    return first(unknown), 0


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
    for lesser, greater, gap in comparisons(loop.goes_on):
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


def comparisons(value: Value | None) -> list[tuple[Value, Value, int]]:
    """Pairs of which one is less than the other by so much at least, where a boolean is true."""
    return _conjunction(value)[0]


def _conjunction(value: Value | None) -> tuple[list[tuple[Value, Value, int]], bool]:
    """Such pairs, and whether the boolean is true just where all of them are so."""
    is_all = value is not None
    found: list[tuple[Value, Value, int]] = []
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if value is None or value in seen:
            continue
        if value.type.size != 1:
            is_all = False
            continue
        seen.add(value)
        match value.producer:
            case Node(Less() | LessEqual() as op, [Value() as lesser, Value() as greater]):
                pair = _integer(lesser), _integer(greater)
                found.append((*pair, 1 if isinstance(op, Less) else 0))
            case Node(And(), [Value() as one, Value() as other]):
                waiting += [one, other]
            case Node(Reshape() | Expand(), [Value() as same, *_]):
                waiting.append(same)
            case Node(If() as op, [Value() as condition, *_]) as node if _is_both(op, node, value):
                waiting.append(condition)  # and more, which is not looked at
                is_all = False
            case _:
                is_all = is_all and isinstance(value, Constant) and bool(value.data.all())
    return found, is_all


def _is_both(op: If, node: Node, value: Value) -> bool:
    """Whether a boolean that a condition chooses is never true without the condition."""
    other = op.else_branch.function.outputs[node.results.index(value)].value
    return isinstance(other, Constant) and not other.data.any()


def _integer(value: Value) -> Value:
    """The integer that was converted to a float to be compared, as older models do."""
    match value.producer:
        case Node(Cast(), [Value() as x]) if x.type.dtype.is_integer and value.type.dtype is f32:
            return x
    return value
