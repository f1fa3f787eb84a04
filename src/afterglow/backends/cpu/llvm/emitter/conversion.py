"""From one element type to another."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter.arithmetic import clamp, select
from afterglow.backends.cpu.llvm.emitter.narrow import decode, encode, round_to_bf16, round_to_odd
from afterglow.backends.cpu.llvm.emitter.value import Value, differ
from afterglow.backends.cpu.llvm.types import mangle, spell
from afterglow.types.dtype import DType, bf16, boolean, f32, f64, i8, i32, u8


def convert(x: Value, dtype: DType, *, saturate: bool = False) -> Value:
    """The same numbers as another type, as near as it has them.

    Floats become integers by leaving out the fraction. What the type cannot hold is undefined if
    it was a float, and loses its upper bits if it was an integer; to saturate is to take the
    nearest that there is, and 0 for NaN.
    """
    if dtype is x.dtype:
        return x
    if dtype is boolean:
        return differ(_computable(x), 0)
    if dtype.is_narrow_float:
        single = round_to_odd(x) if x.dtype is f64 else convert(x, f32)
        return encode(single, dtype, saturate=saturate)
    if dtype.is_integer and dtype.bits < 8:
        return _to_few_bits(x, dtype, saturate=saturate)
    return _between(_computable(x), dtype, saturate=saturate)


def rounded_result(x: Value, dtype: DType) -> Value:
    """Results of f32 as narrow floats, as `convert` does it but for subnormal numbers of bf16.

    They become zero where one instruction rounds: kernels store results by it, casts do not.
    """
    if dtype is bf16 and x.code.target.bf16:
        return round_to_bf16(x)
    return convert(x, dtype)


def _computable(x: Value) -> Value:
    """The same numbers as a type that the machine has."""
    if x.dtype.is_narrow_float:
        return decode(x)
    if x.dtype.is_integer and x.dtype.bits < 8:
        whole = Value(x.code, i8 if x.dtype.is_signed else u8, x.lanes, x.text)
        unused = 8 - x.dtype.bits
        return (whole << unused) >> unused
    return x


def _to_few_bits(x: Value, dtype: DType, *, saturate: bool) -> Value:
    """Integers below a byte: the upper bits of their byte are zero."""
    signed = dtype.is_signed
    if saturate:
        high = (1 << (dtype.bits - signed)) - 1
        x = convert(x, i8 if signed else u8, saturate=True)
        x = clamp(x, -high - 1 if signed else 0, high)
    byte = convert(x, u8) & ((1 << dtype.bits) - 1)
    return Value(x.code, dtype, x.lanes, byte.text)


def _between(x: Value, dtype: DType, *, saturate: bool) -> Value:
    if dtype is x.dtype:
        return x
    if x.dtype is boolean:
        return select(x, Value.of(x.code, dtype, 1), Value.of(x.code, dtype, 0))
    match x.dtype.is_float, dtype.is_float:
        case True, True:
            return _cast(x, "fpext" if dtype.bits > x.dtype.bits else "fptrunc", dtype)
        case True, False:
            return _float_to_integer(x, dtype, saturate=saturate)
        case False, True:
            return _cast(x, "sitofp" if x.dtype.is_signed else "uitofp", dtype)
    return _between_integers(x, dtype, saturate=saturate)


def _float_to_integer(x: Value, dtype: DType, *, saturate: bool) -> Value:
    name = "fptosi" if dtype.is_signed else "fptoui"
    if not saturate:
        return _cast(x, name, dtype)
    wanted = spell(dtype, x.lanes)
    symbol = f"@llvm.{name}.sat.{mangle(dtype, x.lanes)}.{mangle(x.dtype, x.lanes)}"
    return x.derive(f"call {wanted} {symbol}({x.typed})", dtype)


def _between_integers(x: Value, dtype: DType, *, saturate: bool) -> Value:
    if saturate:
        x = _saturated(x, dtype)
    if dtype.bits == x.dtype.bits:
        return Value(x.code, dtype, x.lanes, x.text)
    widening = "sext" if x.dtype.is_signed else "zext"
    return _cast(x, "trunc" if dtype.bits < x.dtype.bits else widening, dtype)


def _saturated(x: Value, dtype: DType) -> Value:
    """The nearest integers that another type has."""
    target = x.code.target
    if target.saturation and x.dtype is i32 and x.lanes == 1 and dtype.bits < 32:
        name = "ssat" if dtype.is_signed else "usat"
        return x.derive(f"call i32 @llvm.arm.{name}({x.typed}, i32 {dtype.bits})")
    low, high = _range(dtype)
    least, most = _range(x.dtype)
    return clamp(x, low if low > least else None, high if high < most else None)


def _range(dtype: DType) -> tuple[int, int]:
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def _cast(x: Value, opcode: str, dtype: DType) -> Value:
    return x.derive(f"{opcode} {x.typed} to {spell(dtype, x.lanes)}", dtype)
