"""What expressions do to values besides operators, by whichever code generator the values are of.

A code generator declares one `Vocabulary` for its class of values. The functions here look it up by
the value that they are given, so that an expression is written once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from afterglow.backends.pointwise.value import Value, ValueT
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import DType, i32, i64

Function = Callable[..., Any]
"""Takes values of one code generator, and numbers beside them; returns such a value."""


@dataclass(frozen=True)
class Vocabulary:
    """The functions of a code generator; those here of the same names say what each does."""

    select: Function
    fma: Function
    larger: Function
    smaller: Function
    maximum: Function
    minimum: Function
    clamp: Function
    absolute: Function
    copy_sign: Function
    divide_by_scalar: Function
    quotient: Function
    reinterpret: Function
    convert: Function
    floor: Function
    ceil: Function
    rint: Function
    nearest_integer: Function
    nearest_quotients: Function
    add_saturating: Function
    high_product: Function
    look_up: Function
    has_doubles: Callable[[Any], bool]
    functions: Mapping[str, Function]
    """Functions of real numbers, by the names that `call` takes."""


_VOCABULARIES: dict[type[Value], Vocabulary] = {}


def declare(values: type[Value], vocabulary: Vocabulary) -> None:
    """Declare the vocabulary of a class of values, once."""
    _VOCABULARIES[values] = vocabulary


def _of(*operands: Value | float | None) -> Vocabulary:
    """The vocabulary of the first value among operands."""
    return _VOCABULARIES[next(type(x) for x in operands if isinstance(x, Value))]


def select(condition: Value, then: ValueT | float, otherwise: ValueT | float) -> ValueT:
    """`then` in the lanes where the condition holds, `otherwise` in the others."""
    chosen: ValueT = _of(condition).select(condition, then, otherwise)
    return chosen


def equal(lhs: ValueT, rhs: ValueT | float) -> ValueT:
    """Where two values are equal; NaN equals nothing."""
    return lhs.combined("==", rhs)


def differ(lhs: ValueT, rhs: ValueT | float) -> ValueT:
    """Where two values are not equal; NaN differs from everything, itself included."""
    return lhs.combined("!=", rhs)


def is_nan(x: ValueT) -> ValueT:
    """Where a float is NaN."""
    return differ(x, x)


def fma(a: ValueT, b: ValueT | float, c: ValueT | float) -> ValueT:
    """a * b + c, rounded once where the machine can, else twice."""
    result: ValueT = _of(a).fma(a, b, c)
    return result


def larger(a: ValueT, b: ValueT) -> ValueT:
    """The larger of two: of floats `b` if either is NaN, or both are zeros."""
    result: ValueT = _of(a).larger(a, b)
    return result


def smaller(a: ValueT, b: ValueT) -> ValueT:
    """The smaller of two: of floats `b` if either is NaN, or both are zeros."""
    result: ValueT = _of(a).smaller(a, b)
    return result


def maximum(a: ValueT, b: ValueT) -> ValueT:
    """The larger of two; NaN if either is."""
    result: ValueT = _of(a).maximum(a, b)
    return result


def minimum(a: ValueT, b: ValueT) -> ValueT:
    """The smaller of two; NaN if either is."""
    result: ValueT = _of(a).minimum(a, b)
    return result


def clamp(x: ValueT, low: float | None, high: float | None) -> ValueT:
    """Between two bounds; NaN stays."""
    result: ValueT = _of(x).clamp(x, low, high)
    return result


def absolute(x: ValueT) -> ValueT:
    """|x|; of the least integer, itself."""
    result: ValueT = _of(x).absolute(x)
    return result


def copy_sign(size: ValueT, sign: ValueT) -> ValueT:
    """|size| with the sign of the other."""
    result: ValueT = _of(size).copy_sign(size, sign)
    return result


def divide_by_scalar(x: ValueT, divisor: ValueT) -> ValueT:
    """x / divisor of floats, where what is far below 1 need not be exact; see the CPU backend."""
    result: ValueT = _of(x).divide_by_scalar(x, divisor)
    return result


def quotient(a: ValueT, b: ValueT) -> ValueT:
    """a / b of integers, rounded towards zero; what is divided by zero is undefined."""
    result: ValueT = _of(a).quotient(a, b)
    return result


def reinterpret(x: ValueT, dtype: DType) -> ValueT:
    """The same bits as another type of as many bits."""
    result: ValueT = _of(x).reinterpret(x, dtype)
    return result


def convert(x: ValueT, dtype: DType, *, saturate: bool = False) -> ValueT:
    """The same numbers as another type, as near as it has them.

    Floats become integers by leaving out the fraction. What the type cannot hold is undefined if
    it was a float, and loses its upper bits if it was an integer; to saturate is to take the
    nearest that there is, and 0 for NaN.
    """
    result: ValueT = _of(x).convert(x, dtype, saturate=saturate)
    return result


def floor(x: ValueT) -> ValueT:
    """The nearest whole number that is not above."""
    result: ValueT = _of(x).floor(x)
    return result


def ceil(x: ValueT) -> ValueT:
    """The nearest whole number that is not below."""
    result: ValueT = _of(x).ceil(x)
    return result


def rint(x: ValueT) -> ValueT:
    """The nearest whole number, the even one of two."""
    result: ValueT = _of(x).rint(x)
    return result


def nearest_integer(x: ValueT) -> ValueT | None:
    """`rint` as i32, saturated; None where no single instruction of the machine gives it."""
    result: ValueT | None = _of(x).nearest_integer(x)
    return result


def nearest_quotients(x: ValueT, divisor: ValueT, most: float) -> ValueT | None:
    """`rint` of x / divisor as i32, of at most a number; None where `rint` is no instruction.

    NaN, and what is below all i32, becomes the least of them.
    """
    result: ValueT | None = _of(x).nearest_quotients(x, divisor, most)
    return result


def add_saturating(a: ValueT, b: ValueT) -> ValueT:
    """a + b of integers, saturated to the range of their type."""
    result: ValueT = _of(a).add_saturating(a, b)
    return result


def high_product(a: ValueT, b: ValueT) -> ValueT:
    """a b / 2^31 of i32, rounded to the nearest, halves up: the high half of twice the product."""
    result: ValueT | None = _of(a).high_product(a, b)
    if result is not None:
        return result
    product = convert(a, i64) * convert(b, i64)
    return convert((product + (1 << 30)) >> 31, i32)


def look_up(x: ValueT, table: Array) -> ValueT:
    """The entries of a table of 256 bytes, by the bits of bytes."""
    result: ValueT = _of(x).look_up(x, table)
    return result


def has_doubles(x: Value) -> bool:
    """Whether the machine that code is made for computes with f64."""
    return _of(x).has_doubles(x)


def call(name: str, *operands: ValueT | float) -> ValueT:
    """A function of real numbers, by its name."""
    result: ValueT = _of(*operands).functions[name](*operands)
    return result
