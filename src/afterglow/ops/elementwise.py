"""Element-wise arithmetic, comparison and logic, with NumPy's broadcasting."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.extents import Extents
from afterglow.ops.rules import (
    broadcast_shape,
    require,
    require_dtype,
    require_float,
    require_number,
    require_same_dtype,
)
from afterglow.support.errors import TypeRuleError
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import Kind, boolean, string
from afterglow.types.extent import RangedExtent


def scalar(b: Builder, number: float, like: Value) -> Value:
    """A rank-0 constant of the element type of `like`; a ranged extent is one of the run."""
    dtype = like.type.dtype
    if isinstance(number, RangedExtent):
        return b.emit(Cast(dtype), b.emit(Extents((number,), ())))
    try:
        return b.constant(np.array(number, dtype.numpy), name="scalar")
    except (OverflowError, ValueError):  # NaN and infinities are not integers, either
        raise TypeRuleError(f"{dtype} has no {number}") from None


class Unary(Op):
    """Base: one operand, a result of the same type, any number."""

    elementwise = True
    inplace = ("x",)
    function: ClassVar[Any]

    def infer(self, x: TensorType) -> TensorType:
        """The operand's own type."""
        require_number(x=x)
        return x

    def evaluate(self, x: Array) -> Array:
        """The function, of each element."""
        return np.asarray(type(self).function(x))


class FloatUnary(Unary):
    """Base: one operand, a result of the same type, floats only."""

    def infer(self, x: TensorType) -> TensorType:
        """The operand's own type."""
        require_float(x=x)
        return x


class Binary(Op):
    """Base: two operands of one element type, broadcast."""

    elementwise = True
    inplace: ClassVar[tuple[str, ...]] = ("lhs", "rhs")
    function: ClassVar[Any]

    def infer(self, lhs: TensorType, rhs: TensorType) -> TensorType:
        """The broadcast shape, the common element type."""
        require_number(lhs=lhs, rhs=rhs)
        dtype = require_same_dtype(lhs=lhs, rhs=rhs)
        return TensorType(dtype, broadcast_shape(lhs=lhs, rhs=rhs))

    def evaluate(self, lhs: Array, rhs: Array) -> Array:
        """The function, of each pair."""
        return np.asarray(type(self).function(lhs, rhs))


class Comparison(Binary):
    """Base: two operands of one element type, a boolean result."""

    inplace = ()

    def infer(self, lhs: TensorType, rhs: TensorType) -> TensorType:
        """The broadcast shape, booleans."""
        require_same_dtype(lhs=lhs, rhs=rhs)
        require(lhs.dtype.kind is not Kind.COMPLEX, f"complex numbers have no order, got {lhs}")
        return TensorType(boolean, broadcast_shape(lhs=lhs, rhs=rhs))


class Extremum(Binary):
    """Base: one of two operands that have an order."""

    def infer(self, lhs: TensorType, rhs: TensorType) -> TensorType:
        """The broadcast shape, the common element type."""
        require(lhs.dtype.kind is not Kind.COMPLEX, f"complex numbers have no order, got {lhs}")
        return super().infer(lhs, rhs)


class Bitwise(Binary):
    """Base: two operands of booleans or integers."""

    def infer(self, lhs: TensorType, rhs: TensorType) -> TensorType:
        """The broadcast shape, the common element type."""
        dtype = require_same_dtype(lhs=lhs, rhs=rhs)
        require(dtype.is_integer or dtype is boolean, f"lhs must hold integers or bool, got {lhs}")
        return TensorType(dtype, broadcast_shape(lhs=lhs, rhs=rhs))


@op("add")
class Add(Binary):
    """Sum: lhs + rhs."""

    function = np.add

    def gradient(self, b: Builder, out: Value, grad: Value, lhs: Value, rhs: Value) -> Gradients:
        """It goes to both."""
        return grad, grad


@op("sub")
class Sub(Binary):
    """Difference: lhs - rhs."""

    function = np.subtract

    def gradient(self, b: Builder, out: Value, grad: Value, lhs: Value, rhs: Value) -> Gradients:
        """It goes to both, to rhs negated."""
        return grad, b.emit(Neg(), grad)


@op("mul")
class Mul(Binary):
    """Product: lhs * rhs."""

    function = np.multiply

    def gradient(self, b: Builder, out: Value, grad: Value, lhs: Value, rhs: Value) -> Gradients:
        """To each, times the other."""
        return b.emit(Mul(), grad, rhs), b.emit(Mul(), grad, lhs)


def _divide(lhs: Array, rhs: Array) -> Array:
    if lhs.dtype.kind not in "iu":
        return np.asarray(np.divide(lhs, rhs))
    safe = np.where(rhs == 0, np.ones_like(rhs), rhs)
    quotient = lhs // safe
    rounded_down = (quotient < 0) & (quotient * safe != lhs)
    return np.where(rhs == 0, np.zeros_like(quotient), quotient + rounded_down)


@op("div")
class Div(Binary):
    """Quotient: lhs / rhs; for integers rounded towards zero, and 0 where rhs is 0."""

    function = _divide

    def gradient(self, b: Builder, out: Value, grad: Value, lhs: Value, rhs: Value) -> Gradients:
        """grad / rhs, and that times -out."""
        part = b.emit(Div(), grad, rhs)
        return part, b.emit(Neg(), b.emit(Mul(), part, out))


@op("mod")
class Mod(Op):
    """Remainder of lhs / rhs, with the sign of rhs, or of lhs if `truncated` (as C's fmod)."""

    elementwise = True
    inplace = ("lhs", "rhs")
    truncated: bool = False

    def infer(self, lhs: TensorType, rhs: TensorType) -> TensorType:
        """The broadcast shape, the common element type."""
        require_number(lhs=lhs, rhs=rhs)
        dtype = require_same_dtype(lhs=lhs, rhs=rhs)
        return TensorType(dtype, broadcast_shape(lhs=lhs, rhs=rhs))

    def evaluate(self, lhs: Array, rhs: Array) -> Array:
        """NumPy's fmod or mod."""
        return np.asarray(np.fmod(lhs, rhs) if self.truncated else np.mod(lhs, rhs))

    def gradient(self, b: Builder, out: Value, grad: Value, lhs: Value, rhs: Value) -> Gradients:
        """It is lhs - n rhs with a whole number n, which changes only in jumps."""
        quotient = b.emit(Div(), lhs, rhs)
        whole = b.emit(Floor(), quotient)
        if self.truncated:
            negative = b.emit(Less(), quotient, scalar(b, 0, quotient))
            whole = b.emit(Where(), negative, b.emit(Ceil(), quotient), whole)
        return grad, b.emit(Neg(), b.emit(Mul(), grad, whole))


def _where_less(b: Builder, x: Value, y: Value, grad: Value) -> Value:
    """A gradient where x < y, half of it where they are equal, else 0."""
    half = b.emit(Mul(), grad, scalar(b, 0.5, grad))
    elsewhere = b.emit(Where(), b.emit(Equal(), x, y), half, scalar(b, 0, grad))
    return b.emit(Where(), b.emit(Less(), x, y), grad, elsewhere)


@op("max")
class Max(Extremum):
    """The larger operand; NaN if either is NaN."""

    function = np.maximum

    def gradient(self, b: Builder, out: Value, grad: Value, lhs: Value, rhs: Value) -> Gradients:
        """To the one that is larger; equal ones share it."""
        part = _where_less(b, rhs, lhs, grad)
        return part, b.emit(Sub(), grad, part)


@op("min")
class Min(Extremum):
    """The smaller operand; NaN if either is NaN."""

    function = np.minimum

    def gradient(self, b: Builder, out: Value, grad: Value, lhs: Value, rhs: Value) -> Gradients:
        """To the one that is smaller; equal ones share it."""
        part = _where_less(b, lhs, rhs, grad)
        return part, b.emit(Sub(), grad, part)

    def lower(self, b: Builder, lhs: Value, rhs: Value) -> Value:
        """lhs where it is smaller or NaN, else rhs."""
        first = b.emit(Less(), lhs, rhs)
        if lhs.type.dtype.is_float:
            first = b.emit(Or(), first, b.emit(IsNaN(), lhs))
        return b.emit(Where(), first, lhs, rhs)


@op("equal")
class Equal(Comparison):
    """Whether lhs = rhs."""

    function = np.equal

    def infer(self, lhs: TensorType, rhs: TensorType) -> TensorType:
        """The broadcast shape, booleans; of any elements."""
        require_same_dtype(lhs=lhs, rhs=rhs)
        return TensorType(boolean, broadcast_shape(lhs=lhs, rhs=rhs))


@op("less")
class Less(Comparison):
    """Whether lhs < rhs."""

    function = np.less


@op("less_equal")
class LessEqual(Comparison):
    """Whether lhs <= rhs."""

    function = np.less_equal

    def lower(self, b: Builder, lhs: Value, rhs: Value) -> Value:
        """lhs < rhs or lhs = rhs."""
        return b.emit(Or(), b.emit(Less(), lhs, rhs), b.emit(Equal(), lhs, rhs))


@op("and")
class And(Bitwise):
    """Bitwise and; logical for booleans."""

    function = np.bitwise_and


@op("or")
class Or(Bitwise):
    """Bitwise or; logical for booleans."""

    function = np.bitwise_or


@op("xor")
class Xor(Bitwise):
    """Bitwise exclusive or; logical for booleans."""

    function = np.bitwise_xor

    def lower(self, b: Builder, lhs: Value, rhs: Value) -> Value:
        """One of them, and not both."""
        both = b.emit(And(), lhs, rhs)
        return b.emit(And(), b.emit(Or(), lhs, rhs), b.emit(Not(), both))


@op("shift_left")
class ShiftLeft(Bitwise):
    """lhs shifted left by rhs bits."""

    function = np.left_shift


@op("shift_right")
class ShiftRight(Bitwise):
    """lhs shifted right by rhs bits."""

    function = np.right_shift


@op("not")
class Not(Unary):
    """Bitwise complement; logical for booleans."""

    function = np.invert

    def infer(self, x: TensorType) -> TensorType:
        """The operand's own type."""
        require(x.dtype.is_integer or x.dtype is boolean, f"x must hold integers or bool, got {x}")
        return x


@op("neg")
class Neg(Unary):
    """Negation: -x."""

    function = np.negative

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Negated."""
        return (b.emit(Neg(), grad),)

    def lower(self, b: Builder, x: Value) -> Value:
        """x * -1: unlike 0 - x it turns 0 into -0."""
        return b.emit(Mul(), x, scalar(b, -1, x))


@op("abs")
class Abs(Unary):
    """Absolute value."""

    function = np.abs

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """With the sign of x, and 0 where x is 0."""
        return (b.emit(Mul(), grad, b.emit(Sign(), x)),)


@op("sign")
class Sign(Unary):
    """The sign of x: -1, 0 or 1; NaN stays NaN."""

    function = np.sign

    def lower(self, b: Builder, x: Value) -> Value:
        """x where x = 0 or NaN, else 1 or -1."""
        zero, one = scalar(b, 0, x), scalar(b, 1, x)
        above = b.emit(Where(), b.emit(Less(), zero, x), one, x)
        if not x.type.dtype.is_signed:
            return above
        return b.emit(Where(), b.emit(Less(), x, zero), scalar(b, -1, x), above)


@op("floor")
class Floor(FloatUnary):
    """The largest whole number not above x."""

    function = np.floor

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Flat between its steps."""
        return (None,)


@op("ceil")
class Ceil(FloatUnary):
    """The smallest whole number not below x."""

    function = np.ceil

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Flat between its steps."""
        return (None,)

    def lower(self, b: Builder, x: Value) -> Value:
        """-floor(-x)."""
        return b.emit(Neg(), b.emit(Floor(), b.emit(Neg(), x)))


@op("round")
class Round(FloatUnary):
    """The nearest whole number; halves go to the even one."""

    function = np.rint

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Flat between its steps."""
        return (None,)


@op("is_nan")
class IsNaN(Op):
    """Whether x is not a number."""

    elementwise = True

    def infer(self, x: TensorType) -> TensorType:
        """Booleans of the same shape."""
        require_float(x=x)
        return x.with_dtype(boolean)

    def evaluate(self, x: Array) -> Array:
        """NumPy's isnan."""
        return np.asarray(np.isnan(x))

    def lower(self, b: Builder, x: Value) -> Value:
        """Only NaN differs from itself."""
        return b.emit(Not(), b.emit(Equal(), x, x))


@op("is_inf")
class IsInf(Op):
    """Whether x is infinite, of either or of a given sign."""

    elementwise = True
    positive: bool = True
    negative: bool = True

    def infer(self, x: TensorType) -> TensorType:
        """Booleans of the same shape."""
        require_float(x=x)
        return x.with_dtype(boolean)

    def evaluate(self, x: Array) -> Array:
        """Compare with each infinity that counts."""
        wide = x.astype(np.float64)
        return (self.positive & (wide == np.inf)) | (self.negative & (wide == -np.inf))

    def lower(self, b: Builder, x: Value) -> Value:
        """Compare with each infinity; where neither counts, with what nothing equals."""
        above = scalar(b, np.inf if self.positive else np.nan, x)
        below = scalar(b, -np.inf if self.negative else np.nan, x)
        return b.emit(Or(), b.emit(Equal(), x, above), b.emit(Equal(), x, below))


@op("where")
class Where(Op):
    """`then` where the condition holds, `other` elsewhere."""

    elementwise = True
    inplace = ("then", "other")
    moves_only = True

    def infer(self, condition: TensorType, then: TensorType, other: TensorType) -> TensorType:
        """The broadcast shape, the element type of the branches."""
        require_dtype(boolean, condition=condition)
        dtype = require_same_dtype(then=then, other=other)
        return TensorType(dtype, broadcast_shape(condition=condition, then=then, other=other))

    def evaluate(self, condition: Array, then: Array, other: Array) -> Array:
        """NumPy's where."""
        return np.where(condition, then, other)

    def gradient(
        self, b: Builder, out: Value, grad: Value, condition: Value, then: Value, other: Value
    ) -> Gradients:
        """To the one that was taken."""
        zero = scalar(b, 0, grad)
        taken = b.emit(Where(), condition, grad, zero)
        return None, taken, b.emit(Where(), condition, zero, grad)


@op("bit_cast")
class BitCast(Op):
    """The same bits, read as elements of another type of the same width."""

    elementwise = True
    inplace = ("x",)
    moves_only = True
    dtype: DType

    def infer(self, x: TensorType) -> TensorType:
        """The same shape; both types are of one width."""
        require(string not in (x.dtype, self.dtype), "strings have no bits to cast")
        require(x.dtype.bits == self.dtype.bits, f"{x} and {self.dtype} differ in width")
        return x.with_dtype(self.dtype)

    def evaluate(self, x: Array) -> Array:
        """A view of the same bytes."""
        return np.ascontiguousarray(x).view(self.dtype.numpy).reshape(x.shape)
