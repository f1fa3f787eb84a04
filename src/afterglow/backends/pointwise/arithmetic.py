"""Arithmetic: sums, products, quotients, powers, extremes, signs, whole numbers."""

from __future__ import annotations

from afterglow.backends.pointwise.division import (
    divide_integers,
    modulo_floats,
    modulo_integers,
    power_of_integers,
)
from afterglow.backends.pointwise.table import expression
from afterglow.backends.pointwise.value import Value
from afterglow.backends.pointwise.vocabulary import (
    absolute,
    call,
    ceil,
    floor,
    larger,
    maximum,
    minimum,
    rint,
    select,
    smaller,
)
from afterglow.ops import elementwise as ops
from afterglow.ops.power import Pow


@expression(ops.Add)
def add(op: ops.Add, lhs: Value, rhs: Value) -> Value:
    """lhs + rhs."""
    return lhs + rhs


@expression(ops.Sub)
def subtract(op: ops.Sub, lhs: Value, rhs: Value) -> Value:
    """lhs - rhs."""
    return lhs - rhs


@expression(ops.Mul)
def multiply(op: ops.Mul, lhs: Value, rhs: Value) -> Value:
    """lhs * rhs."""
    return lhs * rhs


@expression(ops.Div, whole_bytes=True)
def divide(op: ops.Div, lhs: Value, rhs: Value) -> Value:
    """lhs / rhs; of integers towards zero."""
    return lhs / rhs if lhs.dtype.is_float else divide_integers(lhs, rhs)


@expression(ops.Mod, whole_bytes=True)
def modulo(op: ops.Mod, lhs: Value, rhs: Value) -> Value:
    """What lhs / rhs leaves."""
    rest = modulo_floats if lhs.dtype.is_float else modulo_integers
    return rest(lhs, rhs, truncated=op.truncated)


@expression(Pow, whole_bytes=True)
def power(op: Pow, lhs: Value, rhs: Value) -> Value:
    """lhs to the rhs; squares and cubes are products."""
    if not lhs.dtype.is_float:
        return power_of_integers(lhs, rhs)
    match rhs.constant:
        case 2:
            return lhs * lhs
        case 3:
            return lhs * lhs * lhs
    return call("pow", lhs, rhs)


@expression(ops.Max)
def max_(op: ops.Max, lhs: Value, rhs: Value) -> Value:
    """The larger of two; a constant is not NaN, which saves a comparison."""
    return larger(rhs, lhs) if _is_number(rhs) else maximum(lhs, rhs)


@expression(ops.Min)
def min_(op: ops.Min, lhs: Value, rhs: Value) -> Value:
    """The smaller of two; a constant is not NaN, which saves a comparison."""
    return smaller(rhs, lhs) if _is_number(rhs) else minimum(lhs, rhs)


def _is_number(x: Value) -> bool:
    """Whether it is known now, and not NaN."""
    return x.constant is not None and x.constant == x.constant


@expression(ops.Neg)
def negate(op: ops.Neg, x: Value) -> Value:
    """-x."""
    return -x


@expression(ops.Abs)
def size(op: ops.Abs, x: Value) -> Value:
    """|x|."""
    return absolute(x)


@expression(ops.Sign)
def sign(op: ops.Sign, x: Value) -> Value:
    """1 above zero, -1 below, 0 of zeros; NaN stays."""
    if not x.dtype.is_signed:
        return select(x > 0, x.like(1), 0)
    flat = x + x.like(0) if x.dtype.is_float else x  # turns -0 into 0
    return select(x > 0, x.like(1), select(x < 0, x.like(-1), flat))


@expression(ops.Floor)
def floor_(op: ops.Floor, x: Value) -> Value:
    """The next whole number below."""
    return floor(x)


@expression(ops.Ceil)
def ceil_(op: ops.Ceil, x: Value) -> Value:
    """The next whole number above."""
    return ceil(x)


@expression(ops.Round)
def round_(op: ops.Round, x: Value) -> Value:
    """The nearest whole number, of two the even one."""
    return rint(x)
