"""Arithmetic on values that is one instruction, or a few."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter.value import Operand, Value, differ, unify
from afterglow.backends.cpu.llvm.types import is_arithmetic, mangle, spell
from afterglow.types.dtype import DType, boolean, f64, i32, i64


def intrinsic(name: str, *operands: Value, flags: str = "") -> Value:
    """Call `llvm.NAME` on values of one type, which is also the result's."""
    first = operands[0]
    if not is_arithmetic(first.dtype):
        raise TypeError(f"{first.dtype} has no {name}: convert it first")
    arguments = ", ".join(operand.typed for operand in operands)
    symbol = f"@llvm.{name}.{mangle(first.dtype, first.lanes)}"
    return first.derive(f"call {first.type} {symbol}({arguments}{flags})")


def select(condition: Value, then: Operand, otherwise: Operand) -> Value:
    """`then` in the lanes where the condition holds, `otherwise` in the others."""
    chosen, other = unify(then, otherwise)
    lanes = max(condition.lanes, chosen.lanes)
    chosen, other = chosen.splat(lanes), other.splat(lanes)
    condition = condition.splat(lanes)
    return chosen.derive(f"select {condition.typed}, {chosen.typed}, {other.typed}")


def fuses(value: Value) -> bool:
    """Whether the machine multiplies and adds such values with one rounding."""
    target = value.code.target
    return target.fma and (value.dtype is not f64 or target.double_precision)


def fma(a: Operand, b: Operand, c: Operand) -> Value:
    """a * b + c, rounded once where the machine can, else twice."""
    x, y, z = unify(a, b, c)
    return intrinsic("fma", x, y, z) if fuses(x) else x * y + z


def larger(a: Operand, b: Operand) -> Value:
    """The larger of two, by one instruction: of floats `b` if either is NaN, or both are zeros."""
    x, y = unify(a, b)
    return select(x > y, x, y)


def smaller(a: Operand, b: Operand) -> Value:
    """The smaller of two, by one instruction: of floats `b` if either is NaN, or both are zeros."""
    x, y = unify(a, b)
    return select(x < y, x, y)


def maximum(a: Operand, b: Operand) -> Value:
    """The larger of two; NaN if either is."""
    x, y = unify(a, b)
    return select(is_nan(x), x, larger(x, y)) if x.dtype.is_float else larger(x, y)


def minimum(a: Operand, b: Operand) -> Value:
    """The smaller of two; NaN if either is."""
    x, y = unify(a, b)
    return select(is_nan(x), x, smaller(x, y)) if x.dtype.is_float else smaller(x, y)


def clamp(x: Value, low: Operand | None, high: Operand | None) -> Value:
    """Between two bounds; NaN stays."""
    if low is not None:
        x = larger(low, x)
    return x if high is None else smaller(high, x)


def is_nan(x: Value) -> Value:
    """Where a float is NaN."""
    return differ(x, x)


def absolute(x: Value) -> Value:
    """|x|; of the least integer, itself."""
    if x.dtype.is_float:
        return intrinsic("fabs", x)
    return intrinsic("abs", x, flags=", i1 false") if x.dtype.is_signed else x


def copy_sign(size: Operand, sign: Operand) -> Value:
    """|size| with the sign of the other."""
    magnitude, signed = unify(size, sign)
    return intrinsic("copysign", magnitude, signed)


def sqrt(x: Value) -> Value:
    """The square root, rounded right."""
    return intrinsic("sqrt", x)


def quotient(a: Operand, b: Operand) -> Value:
    """a / b of integers, rounded towards zero; dividing by zero stops the program."""
    x, y = unify(a, b)
    return x.derive(f"{'sdiv' if x.dtype.is_signed else 'udiv'} {x.typed}, {y.text}")


def remainder(a: Operand, b: Operand) -> Value:
    """What `quotient` leaves: it has the sign of `a`."""
    x, y = unify(a, b)
    return x.derive(f"{'srem' if x.dtype.is_signed else 'urem'} {x.typed}, {y.text}")


def add_saturating(a: Operand, b: Operand) -> Value:
    """a + b of integers, saturated to the range of their type."""
    x, y = unify(a, b)
    return intrinsic("sadd.sat" if x.dtype.is_signed else "uadd.sat", x, y)


def subtract_saturating(a: Operand, b: Operand) -> Value:
    """a - b of integers, saturated to the range of their type."""
    x, y = unify(a, b)
    return intrinsic("ssub.sat" if x.dtype.is_signed else "usub.sat", x, y)


def leading_zeros(x: Value) -> Value:
    """How many zero bits stand before the first one; of zero, all."""
    return intrinsic("ctlz", x, flags=", i1 false")


def reinterpret(x: Value, dtype: DType) -> Value:
    """The same bits as another type; with wider elements there are fewer lanes."""
    bits = x.lanes * (1 if x.dtype is boolean else max(x.dtype.bits, 8))
    lanes, rest = divmod(bits, max(dtype.bits, 8))
    if rest:
        raise TypeError(f"{bits} bits are no whole number of {dtype}")
    wanted = spell(dtype, lanes)
    if wanted == x.type:
        return Value(x.code, dtype, lanes, x.text)
    return x.derive(f"bitcast {x.typed} to {wanted}", dtype, lanes)


def to_bits(x: Value) -> Value:
    """The encoding of a float as signed integers of the same width."""
    return reinterpret(x, i64 if x.dtype is f64 else i32)
