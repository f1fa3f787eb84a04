"""Comparing floats by their encodings."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.cpu.llvm.emitter import Value, convert, equal, select
from afterglow.backends.cpu.llvm.routines.float_format import FloatFormat
from afterglow.types.dtype import i32, i64

Comparison = Callable[[FloatFormat, Value, Value], Value]
"""Whether something holds of two encoded floats."""


def is_equal(form: FloatFormat, a: Value, b: Value) -> Value:
    """a == b."""
    return equal(_order(form, a), _order(form, b)) & _are_numbers(form, a, b)


def is_less(form: FloatFormat, a: Value, b: Value) -> Value:
    """a < b."""
    return (_order(form, a) < _order(form, b)) & _are_numbers(form, a, b)


def is_at_most(form: FloatFormat, a: Value, b: Value) -> Value:
    """a <= b."""
    return (_order(form, a) <= _order(form, b)) & _are_numbers(form, a, b)


def is_more(form: FloatFormat, a: Value, b: Value) -> Value:
    """a > b."""
    return is_less(form, b, a)


def is_at_least(form: FloatFormat, a: Value, b: Value) -> Value:
    """a >= b."""
    return is_at_most(form, b, a)


def is_unordered(form: FloatFormat, a: Value, b: Value) -> Value:
    """Whether a or b is NaN."""
    return ~_are_numbers(form, a, b)


def compare(form: FloatFormat, a: Value, b: Value, unordered: int) -> Value:
    """-1, 0 or 1 as a is less than b, equal or more; `unordered` if either is NaN."""
    x, y = _order(form, a), _order(form, b)
    found = convert(x > y, i32) - convert(x < y, i32)
    return select(_are_numbers(form, a, b), found, found.like(unordered))


def _order(form: FloatFormat, x: Value) -> Value:
    """A number that is less where the float is; the same for both zeros."""
    size = convert(_size(form, x), i64)
    return select(x >= form.sign, 0 - size, size)


def _are_numbers(form: FloatFormat, a: Value, b: Value) -> Value:
    return (_size(form, a) <= form.infinity) & (_size(form, b) <= form.infinity)


def _size(form: FloatFormat, x: Value) -> Value:
    return x & (form.sign - 1)
