"""Numbers in a kernel: a scalar or a vector, with the operators of arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afterglow.backends.items.types import is_arithmetic
from afterglow.backends.opencl.clc.types import (
    literal,
    signed_of,
    spell,
    unsigned_of,
)
from afterglow.backends.pointwise import value as pointwise
from afterglow.types.dtype import DType, boolean, i32

if TYPE_CHECKING:
    from afterglow.backends.opencl.clc.code import Code

_COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}
_LOGIC = {"&", "|", "^", "==", "!="}
_WRAPPING = {"+", "-", "*", "<<"}
"""Operators whose result of signed integers C leaves undefined where it does not fit."""


class Value(pointwise.Value):
    """A value of a kernel, by its name or a short text for it.

    A vector of booleans has all bits set in the lanes that are true, a scalar is 0 or 1.
    """

    __slots__ = ("code", "constant", "dtype", "is_index", "lanes", "text")

    def __init__(
        self, code: Code, dtype: DType, lanes: int, text: str, constant: float | None = None
    ) -> None:
        self.is_index = False
        """Whether it counts elements: its sums and products fit its type, and need no name."""
        self.code = code
        self.dtype = dtype
        self.lanes = lanes
        self.text = text
        self.constant = constant

    @property
    def type(self) -> str:
        """C's type of it."""
        return spell(self.dtype, self.lanes)

    def of_type(self, dtype: DType, number: float) -> Value:
        """See the base."""
        made = Value(self.code, dtype, self.lanes, literal(dtype, number, self.lanes), number)
        made.is_index = self.is_index and dtype is self.dtype
        return made

    def derive(self, text: str, dtype: DType | None = None, lanes: int | None = None) -> Value:
        """The result of an expression; what is not said is as in this value."""
        return self.code.define(text, dtype or self.dtype, lanes or self.lanes)

    def splat(self, lanes: int) -> Value:
        """See the base."""
        if lanes == self.lanes:
            return self
        if self.lanes != 1:
            raise TypeError(f"a vector of {self.lanes} lanes does not stretch to {lanes}")
        if self.constant is not None:
            text = literal(self.dtype, self.constant, lanes)
            return Value(self.code, self.dtype, lanes, text, self.constant)
        sign = "-" if self.dtype is boolean else ""
        return self.derive(f"({spell(self.dtype, lanes)})({sign}{self.text})", lanes=lanes)

    def combined(self, symbol: str, other: Value | float, *, swapped: bool = False) -> Value:
        """See the base."""
        mine, their = pointwise.unify(self, other)
        lhs, rhs = (their, mine) if swapped else (mine, their)
        if not is_arithmetic(lhs.dtype) and not (lhs.dtype is boolean and symbol in _LOGIC):
            raise TypeError(f"{lhs.dtype} has no operator {symbol}: convert it first")
        known = pointwise.folded(symbol, lhs, rhs)
        if known is not None:
            return known
        if symbol in _COMPARISONS:
            return _compared(symbol, lhs, rhs)
        if self.is_index:
            return index_of(lhs.code, lhs.dtype, f"({lhs.text} {symbol} {rhs.text})")
        if lhs.dtype.is_integer:
            return _of_integers(symbol, lhs, rhs)
        return lhs.derive(f"{lhs.text} {symbol} {rhs.text}")

    def negated(self) -> Value:
        """See the base."""
        return self.derive(f"-{self.text}")

    def __repr__(self) -> str:
        return f"<{self.type} {self.text}>"


def index_of(code: Code, dtype: DType, text: str, constant: float | None = None) -> Value:
    """A number of elements."""
    made = Value(code, dtype, 1, text, constant)
    made.is_index = True
    return made


def _compared(symbol: str, lhs: Value, rhs: Value) -> Value:
    """A comparison; OpenCL's of vectors has lanes as wide as the operands."""
    text = f"{lhs.text} {symbol} {rhs.text}"
    if lhs.lanes == 1 or lhs.dtype.bits == i32.bits or lhs.dtype is boolean:
        return lhs.derive(text, boolean)
    return lhs.derive(f"convert_{spell(i32, lhs.lanes)}({text})", boolean)


def _of_integers(symbol: str, lhs: Value, rhs: Value) -> Value:
    """Arithmetic that wraps around, which C has of unsigned integers only."""
    if symbol == "/":
        raise TypeError(f"{lhs.dtype} has no operator /")
    if symbol not in _WRAPPING or (not lhs.dtype.is_signed and lhs.dtype.bits >= i32.bits):
        return _narrowed(f"{lhs.text} {symbol} {rhs.text}", lhs)
    if lhs.lanes > 1:
        unsigned = f"as_{spell(unsigned_of(lhs.dtype.bits), lhs.lanes)}"
        inner = f"{unsigned}({lhs.text}) {symbol} {unsigned}({rhs.text})"
        return lhs.derive(f"as_{lhs.type}({inner})")
    wide = spell(unsigned_of(max(lhs.dtype.bits, i32.bits)))
    return _narrowed(f"({wide}){lhs.text} {symbol} ({wide}){rhs.text}", lhs)


def _narrowed(text: str, like: Value) -> Value:
    """C computes with small integers as with `int`: cut the result."""
    return like.derive(text if like.lanes > 1 else f"({like.type})({text})")


def mask_of(condition: Value, bits: int) -> str:
    """A condition as OpenCL's `select` wants it beside lanes of so many bits."""
    if bits == i32.bits:
        return condition.text
    wanted = spell(signed_of(bits), condition.lanes)
    return f"convert_{wanted}({condition.text})"
