"""Integers that nodes compute, as sums of unknowns: which differ by a constant, and their bounds.

A slice from `i` to `i + 8` has 8 elements whatever `i` is, as long as all of them are there. The
first follows from the forms of its bounds; the second from the bounds of the unknowns, which a loop
knows once its body is there: how often it runs, and by how much each iteration moves what it
carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from math import inf
from typing import Any, TypeAlias

import numpy as np

from afterglow.graph import Constant, Node, Value
from afterglow.graph.index_check import has_outside
from afterglow.graph.order import in_order
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Max, Min, Mod, Mul, Neg, Sub
from afterglow.ops.extents import Extents
from afterglow.ops.indexing import Gather
from afterglow.ops.movement import Concat, Expand, Reshape, Slice, Tile, Transpose
from afterglow.ops.search import ArgMax, ArgMin
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType
from afterglow.types.dtype import i32, i64
from afterglow.types.extent import largest, smallest

MOST_ELEMENTS = 64
"""Values of more elements are not looked into: indices and bounds are few."""

_MOST_TERMS = 16
"""Forms of more unknowns, and values that take more conditions, are unknowns themselves."""

_MOST_BOUNDED = 64
"""The most values that are visited for the bounds of one form."""

_HUGE = 2**63

Unknown: TypeAlias = tuple[Value, int]
"""One element of a value that is not a sum of others."""

_ARITHMETIC = (Add, Sub, Mul, Neg)
_MOVING = (Reshape, Transpose, Expand, Concat, Slice, Tile)


@dataclass(frozen=True)
class Interval:
    """All integers from `low` to `high`, either of which may be infinite."""

    low: float = -inf
    high: float = inf

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def scaled(self, factor: int) -> Interval:
        """All of them times a factor, which is not 0."""
        ends = (self.low * factor, self.high * factor)
        return Interval(min(ends), max(ends))

    def hull(self, other: Interval) -> Interval:
        """The smallest interval that has both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def contains(self, other: Interval) -> bool:
        """Whether the other one has no more than this one."""
        return self.low <= other.low and other.high <= self.high


@dataclass(frozen=True)
class LinearForm:
    """A constant, and unknowns times coefficients that are not 0."""

    constant: int
    terms: Mapping[Unknown, int] = field(default_factory=dict)

    def __add__(self, other: LinearForm) -> LinearForm:
        terms = dict(self.terms)
        for unknown, factor in other.terms.items():
            terms[unknown] = terms.get(unknown, 0) + factor
        kept = {unknown: factor for unknown, factor in terms.items() if factor}
        return LinearForm(self.constant + other.constant, kept)

    def __neg__(self) -> LinearForm:
        return self.scaled(-1)

    def __sub__(self, other: LinearForm) -> LinearForm:
        return self + other.scaled(-1)

    def __mul__(self, other: LinearForm) -> LinearForm:
        if not other.terms:
            return self.scaled(other.constant)
        if not self.terms:
            return other.scaled(self.constant)
        raise _NotLinearError

    def scaled(self, factor: int) -> LinearForm:
        """All of it times a factor."""
        terms = {unknown: own * factor for unknown, own in self.terms.items()} if factor else {}
        return LinearForm(self.constant * factor, terms)

    def with_forms(self, forms: Mapping[Unknown, LinearForm]) -> LinearForm:
        """The same with forms in the place of some unknowns."""
        total = LinearForm(self.constant)
        for unknown, factor in self.terms.items():
            total += forms.get(unknown, LinearForm(0, {unknown: 1})).scaled(factor)
        return total


@dataclass(frozen=True)
class Condition:
    """What must hold for a program to be right: a form lies within an interval."""

    form: LinearForm
    within: Interval


class _NotLinearError(Exception):
    """The product of two unknowns."""


class LinearForms:
    """The forms of values, across the bounds of bodies.

    `outermost` tells which outer value an input of a body stands for. `ranges` has what is known of
    unknowns besides what their ops tell; `open` are inputs of bodies of which more will be known.
    """

    def __init__(self, outermost: Callable[[Value], Value]) -> None:
        self.ranges: dict[Unknown, Interval] = {}
        self.open: set[Value] = set()
        self._outermost = outermost
        self._forms: dict[Value, Array] = {}
        self._conditions: dict[Value, tuple[Condition, ...]] = {}

    def of(self, value: Value) -> list[LinearForm] | None:
        """The form of each element; None if there are too many, or they are not i32 or i64."""
        value = self._outermost(value)
        if not _has_forms(value):
            return None
        self._compute(value)
        return list(self._forms[value].reshape(-1))

    def conditions_of(self, value: Value) -> tuple[Condition, ...]:
        """What must hold for the forms to be right: that nothing overflows."""
        return self._conditions.get(self._outermost(value), ())

    def interval(self, form: LinearForm) -> Interval:
        """Between which bounds it lies."""
        return self._interval(form, {})

    def _interval(self, form: LinearForm, seen: dict[Value, Interval]) -> Interval:
        total = Interval(form.constant, form.constant)
        for unknown, factor in form.terms.items():
            total += self._range(unknown, seen).scaled(factor)
        return total

    def holds(self, condition: Condition) -> bool:
        """Whether a condition certainly holds."""
        return condition.within.contains(self.interval(condition.form))

    def may_hold(self, condition: Condition) -> bool:
        """Whether it is too early to tell: something of a loop around is not known yet."""
        is_open = [value in self.open for value, _ in condition.form.terms]
        ranges = (self._range(unknown, {}) for unknown in condition.form.terms)
        bounded = (Interval(-_HUGE, _HUGE).contains(found) for found in ranges)
        return any(is_open) and all(a or b for a, b in zip(is_open, bounded, strict=True))

    def _compute(self, value: Value) -> None:
        """Find the forms of all values that it takes, each after those that it reads."""

        def missing(values: Iterable[Value]) -> list[Node | None]:
            found = [v for v in map(self._outermost, values) if v not in self._forms]
            return [v.producer if _has_forms(v) and _is_first(v) else None for v in found]

        for node in in_order(missing([value]), lambda node: missing(node.given)):
            result = node.results[0]
            self._forms[result], self._conditions[result] = self._forms_of(node)
        if value not in self._forms:
            self._forms[value] = _leaf(value)

    def _forms_of(self, node: Node) -> tuple[Array, tuple[Condition, ...]]:
        result = node.results[0]
        given = [self._outermost(operand) for operand in node.given]
        if not all(_has_forms(operand) for operand in given):
            return _unknowns(result), ()
        arrays = [self._look_up(operand) for operand in given]
        try:
            forms = _apply(node, arrays)
        except _NotLinearError:
            forms = None
        if forms is None or not all(map(_is_simple, forms.reshape(-1))):
            return _unknowns(result), ()
        conditions = [c for operand in given for c in self._conditions.get(operand, ())]
        conditions += _without_overflow(node, forms)
        if len(conditions) > _MOST_TERMS:
            return _unknowns(result), ()
        return forms, tuple(conditions)

    def _look_up(self, value: Value) -> Array:
        if value not in self._forms:
            self._forms[value] = _leaf(value)
        return self._forms[value]

    def _range(self, unknown: Unknown, seen: dict[Value, Interval]) -> Interval:
        if unknown in self.ranges:
            return self.ranges[unknown]
        match unknown[0].producer:
            case Node(ArgMax(axis) | ArgMin(axis), [Value() as x]):
                return Interval(0, largest(x.type.shape[axis]) - 1)
            case Node(Extents(values)):
                value = values[unknown[1]]
                return Interval(smallest(value), largest(value))
            case Node(Clip(low, high), [Value()]):
                most = inf if high is None else high
                return Interval(-inf if low is None else min(low, most), most)
            case Node(Mod(truncated), [_, Value() as divisor]):
                found = self._whole(divisor, seen)
                if found.low > 0:
                    return Interval(1 - found.high if truncated else 0, found.high - 1)
            case Node(Min() | Max() as op, [Value() as lhs, Value() as rhs]):
                one, other = self._whole(lhs, seen), self._whole(rhs, seen)
                choose = min if isinstance(op, Min) else max
                return Interval(choose(one.low, other.low), choose(one.high, other.high))
        return Interval()

    def _whole(self, value: Value, seen: dict[Value, Interval]) -> Interval:
        """Between which bounds all elements of a value lie; `seen` has those found before."""
        forms = self.of(value)
        if forms is None or len(seen) > _MOST_BOUNDED:
            return Interval()
        if value not in seen:
            seen[value] = Interval()
            first, *others = (self._interval(form, seen) for form in forms)
            for other in others:
                first = first.hull(other)
            seen[value] = first
        return seen[value]


def _has_forms(value: Value) -> bool:
    if value.type.dtype not in (i32, i64) or value.type.is_ranged:
        return False
    return 0 < value.type.size <= MOST_ELEMENTS


def _is_simple(form: LinearForm) -> bool:
    """Whether it has few terms, and no number that 64 bits do not hold with room to spare."""
    numbers = (form.constant, *form.terms.values())
    return len(form.terms) <= _MOST_TERMS and all(abs(number) < 2**62 for number in numbers)


def _is_first(value: Value) -> bool:
    """Whether it is the first result of a node: ops that add and move have no others."""
    return value.producer is not None and value is value.producer.results[0]


def _leaf(value: Value) -> Array:
    if not isinstance(value, Constant):
        return _unknowns(value)
    return _array((LinearForm(int(x)) for x in value.data.reshape(-1)), value)


def _unknowns(value: Value) -> Array:
    return _array((LinearForm(0, {(value, k): 1}) for k in range(value.type.size)), value)


def _array(forms: Iterable[LinearForm], value: Value) -> Array:
    array = np.empty(value.type.size, np.object_)
    array[:] = list(forms)
    return array.reshape(value.type.shape)


def _apply(node: Node, operands: list[Array]) -> Array | None:
    """The forms of a node's result: ops that add and move do so with forms as with numbers."""
    op: Any = node.op
    if isinstance(op, Cast):
        return operands[0]
    if isinstance(op, Gather):
        data, indices = operands
        if any(form.terms for form in indices.reshape(-1)):
            return None
        places = np.array([form.constant for form in indices.reshape(-1)], np.int64)
        types = [operand.type for operand in node.given]
        if has_outside(places, op.index_ranges(types)["indices"]):
            return None
        operands = [data, places.reshape(indices.shape)]
    elif not isinstance(op, (*_ARITHMETIC, *_MOVING)):
        return None
    return np.asarray(op.evaluate(*operands), np.object_).reshape(node.results[0].type.shape)


def _without_overflow(node: Node, forms: Array) -> list[Condition]:
    """That arithmetic in 32 bits stays in them. In 64 bits, no index comes near the end."""
    dtype: DType = node.results[0].type.dtype
    if dtype is not i32 or not isinstance(node.op, (*_ARITHMETIC, Cast)):
        return []
    within = Interval(-(2**31), 2**31 - 1)
    return [Condition(form, within) for form in forms.reshape(-1) if form.terms]
