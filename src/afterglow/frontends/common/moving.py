"""Slices and ranges that begin anywhere, but always have the same number of elements.

Slice cuts what lies outside of its operand, and counts negative bounds from the end. So where the
number of elements follows from the difference of the bounds, both must be inside, or both negative
and inside: that is a condition, which the loops around must show to hold. Iterations that the host
can run again, one by one (`definition/chunks.py`), may check it when they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.limits import check_table
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Less, Where
from afterglow.ops.indexing import DynamicSlice, Gather
from afterglow.ops.linear_forms import Condition, Interval, LinearForm
from afterglow.ops.movement import Expand, Reshape, Slice, slice_axis
from afterglow.ops.rules import normal_axis
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types.dtype import i64
from afterglow.types.extent import is_ranged, smallest


@dataclass(frozen=True)
class _Window:
    """What a slice takes along an axis, and when that is so.

    It begins at the start that is given plus `shift`: not 0 if that counts from the end. Or it is
    a part that is known, between two others that move.
    """

    axis: int
    extent: int
    step: int
    shift: int = 0
    conditions: tuple[Condition, ...] = ()
    known: range | None = None


def moving_windows(
    n: NodeContext, starts: Value, ends: Value, axes: Sequence[int], steps: Sequence[int]
) -> Value | None:
    """A slice of operand 0 whose starts are known when it runs; None if it must be another way."""
    forms = n.graph.session.forms
    firsts, lasts = forms.of(starts), forms.of(ends)
    if firsts is None or lasts is None or not len(firsts) == len(lasts) == len(axes) == len(steps):
        return None
    if not any(form.terms for form in (*firsts, *lasts)):
        return None
    windows = [_window(n, *each) for each in zip(firsts, lasts, axes, steps, strict=True)]
    found = [window for window in windows if window is not None]
    conditions = [condition for window in found for condition in window.conditions]
    conditions += [*forms.conditions_of(starts), *forms.conditions_of(ends)]
    if len(found) < len(windows):
        return None
    is_checked = n.graph.session.is_speculative and not all(map(forms.holds, conditions))
    if not is_checked and not n.graph.session.assume(conditions):
        return None
    x = n[0]
    for index, window in enumerate(found):
        if window.known is not None:
            x = n.emit(_static(x.type, window.axis, window.known), x)
            continue
        start = _start(n, starts, index, window.shift)
        if is_checked:
            x = _checked(n, x, window, start)
        else:
            x = n.emit(DynamicSlice(window.axis, window.extent, window.step), x, start)
    return x


def _checked(n: NodeContext, x: Value, window: _Window, start: Value) -> Value:
    """A window of which each place is checked when it runs: an error if one is outside."""
    steps = n.constant(np.arange(window.extent, dtype=np.int64) * window.step)
    first = start if start.type.dtype is i64 else n.emit(Cast(i64), start)
    first = n.emit(Expand((window.extent,)), n.emit(Reshape((1,)), first))
    places = n.emit(Add(), first, steps)
    outside = n.emit(Expand((window.extent,)), n.integers_of((x.type.shape[window.axis],), (1,)))
    zeros = n.constant(np.zeros(window.extent, np.int64))
    is_negative = n.emit(Less(), places, zeros)  # which would count from the end
    return n.emit(Gather(window.axis), x, n.emit(Where(), is_negative, outside, places))


def _static(x: TensorType, axis: int, chosen: range) -> Slice:
    """The slice that takes known places along an axis, and all along the others."""
    return slice_axis(x, axis, chosen.start if chosen else 0, len(chosen), chosen.step)


def _window(
    n: NodeContext, start: LinearForm, end: LinearForm, axis: int, step: int
) -> _Window | None:
    """The part between two bounds, if it always has the same extent, and is not empty."""
    axis = normal_axis(axis, n[0].type)
    whole, length = smallest(n[0].type.shape[axis]), end - start
    extent = -(-length.constant // step) if step else 0
    if not start.terms and not end.terms:
        if is_ranged(n[0].type.shape[axis]):
            return None
        return _fixed(axis, whole, start.constant, end.constant, step)
    if length.terms or not 0 < extent <= whole:
        return None
    last = start + LinearForm((extent - 1) * step)
    from_end = start.constant < 0 and all(factor < 0 for factor in start.terms.values())
    inside = Interval(-whole, -1) if from_end else Interval(0, whole - 1)
    conditions = [Condition(start, inside), Condition(last, inside)]
    if from_end or step < 0:  # else an end beyond the last element changes nothing
        conditions.append(Condition(end, Interval(inside.low, -1 if from_end else inf)))
    shift = n[0].type.shape[axis] if from_end else 0
    return _Window(axis, extent, step, shift, tuple(conditions))


def _fixed(axis: int, whole: int, start: int, end: int, step: int) -> _Window | None:
    """The part between two bounds that are known, beside one that moves."""
    if step == 0:
        return None
    start = max(start, -whole) if step < 0 else start
    chosen = range(*slice(start, end, step).indices(whole))
    return _Window(axis, len(chosen), step, known=chosen)


def _start(n: NodeContext, starts: Value, index: int, shift: int) -> Value:
    """Where a window begins, as a scalar."""
    if starts.type.size > 1:
        starts = n.emit(Slice((index,), (1,), (1,)), starts)
    start = n.emit(Reshape(()), starts)
    if shift == 0:
        return start
    return n.emit(Add(), start, n.integers_of((shift,), (), start.type.dtype))


def moving_range(n: NodeContext, start: Value, limit: Value, delta: Array | None) -> Value | None:
    """Integers from a start that is known when it runs; None if it must be another way."""
    forms = n.graph.session.forms
    first, last = forms.of(start), forms.of(limit)
    if not first or not last or delta is None or not _is_step(delta):
        return None
    length, step = last[0] - first[0], int(delta.reshape(()))
    conditions = (*forms.conditions_of(start), *forms.conditions_of(limit))
    if not first[0].terms or length.terms or not n.graph.session.assume(conditions):
        return None
    count = max(-(-length.constant // step), 0)
    check_table(count)
    steps = np.arange(count) * step
    first_place = n.emit(Reshape((1,)), start)
    return n.emit(Add(), first_place, n.constant(steps.astype(start.type.dtype.numpy)))


def _is_step(delta: Array) -> bool:
    return delta.size == 1 and delta.dtype.kind in "iu" and delta.item() != 0
