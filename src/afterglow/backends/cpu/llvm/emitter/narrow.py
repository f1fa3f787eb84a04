"""Floats below 32 bits: read into f32 exactly, and rounded back once, ties to even.

A format is sign, exponent and fraction, as in f32 but shorter. So the bits shifted up are an f32
with the wrong bias, which one multiplication by a power of two mends, subnormal numbers included.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter.arithmetic import (
    absolute,
    is_nan,
    reinterpret,
    select,
    to_bits,
)
from afterglow.backends.cpu.llvm.emitter.value import Value, equal
from afterglow.backends.cpu.llvm.types import spell
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import dtype as dtypes
from afterglow.types.dtype import DType, f32, i32, u8, u16, u32


@dataclass(frozen=True)
class Format:
    """A narrow float format: the bits of its parts, and its codes of infinity and NaN.

    `infinity` is None where the format has none: what is too large is then NaN, or the largest
    if there is no NaN either. `one_nan` formats have no -0: its code is their only NaN.
    """

    exponent_bits: int
    fraction_bits: int
    bias: int
    largest: int
    infinity: int | None
    nan: int | None
    one_nan: bool = False


FORMATS: dict[DType, Format] = {
    dtypes.f16: Format(5, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
    dtypes.bf16: Format(8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    dtypes.f8e5m2: Format(5, 2, 15, 0x7B, 0x7C, 0x7E),
    dtypes.f8e4m3fn: Format(4, 3, 7, 0x7E, None, 0x7F),
    dtypes.f8e5m2fnuz: Format(5, 2, 16, 0x7F, None, 0x80, one_nan=True),
    dtypes.f8e4m3fnuz: Format(4, 3, 8, 0x7F, None, 0x80, one_nan=True),
    dtypes.f4e2m1: Format(2, 1, 1, 0x7, None, None),
}


def decode(x: Value) -> Value:
    """Narrow floats as f32: every one of them has its equal there."""
    if x.dtype is dtypes.f16 and x.code.target.half_conversions:
        return _cast_half(x)
    if x.dtype is dtypes.f8e8m0:
        return _decode_power(x)
    form = FORMATS[x.dtype]
    code = _widened(x)
    if form.exponent_bits == 8:
        return reinterpret(code << (23 - form.fraction_bits), f32)
    sign_bit = 1 << (form.exponent_bits + form.fraction_bits)
    size = code & (sign_bit - 1)
    scaled = _scaled(size, form)
    sign = (code & sign_bit) << (31 - form.exponent_bits - form.fraction_bits)
    number = reinterpret(to_unsigned(scaled) | sign, f32)
    return _with_specials(number, code, size, form)


def _scaled(size: Value, form: Format) -> Value:
    """The number of a code without its sign."""
    shifted = size << (23 - form.fraction_bits)
    if size.code.target.subnormals:
        return reinterpret(shifted, f32) * 2.0 ** (127 - form.bias)
    counted = _as_float(size) * 2.0 ** (1 - form.bias - form.fraction_bits)
    rebased = reinterpret(shifted + ((127 - form.bias) << 23), f32)
    return select(size < 1 << form.fraction_bits, counted, rebased)


def _with_specials(number: Value, code: Value, size: Value, form: Format) -> Value:
    """Infinities and NaN, which the multiplication turned into numbers."""
    if form.one_nan:
        return select(equal(code, form.nan or 0), float("nan"), number)
    if form.infinity is None:
        return number if form.nan is None else select(equal(size, form.nan), float("nan"), number)
    special = to_unsigned(number) | 0x7F800000
    return reinterpret(select(size >= form.infinity, special, to_unsigned(number)), f32)


def encode(x: Value, dtype: DType, *, saturate: bool = False) -> Value:
    """The nearest narrow floats; what is too large becomes infinite, NaN, or the largest."""
    if dtype is dtypes.f16 and x.code.target.half_conversions and not saturate:
        half = x.derive(f"fptrunc {x.typed} to {_half(x.lanes)}").text
        return x.derive(f"bitcast {_half(x.lanes)} {half} to {spell(dtype, x.lanes)}", dtype)
    if dtype is dtypes.f8e8m0:
        return _encode_power(x)
    form = FORMATS[dtype]
    size = _rounded(absolute(x), form)
    size = select(size > form.largest, _excess(form, saturate=saturate), size)
    sign = to_unsigned(x) & 0x80000000
    sign = sign >> (31 - form.exponent_bits - form.fraction_bits)
    if form.one_nan:
        sign = select(equal(size, 0) | equal(size, form.nan or 0), 0, sign)
    code = size | sign
    if form.nan is not None:
        code = select(is_nan(x), form.nan, code)
    return _narrowed(code, dtype)


def round_to_bf16(x: Value) -> Value:
    """The nearest bf16 by one instruction: subnormal numbers become zero. Needs `Target.bf16`."""
    lanes = "" if x.lanes == 1 else f"<{x.lanes} x "
    kind = f"{lanes}bfloat{'>' if lanes else ''}"
    rounded = x.derive(f"fptrunc {x.typed} to {kind}").text
    return x.derive(f"bitcast {kind} {rounded} to {spell(dtypes.bf16, x.lanes)}", dtypes.bf16)


def _rounded(x: Value, form: Format) -> Value:
    """The code of a positive number, as if the exponent had no upper limit."""
    bits, shift = to_unsigned(x), 23 - form.fraction_bits
    odd = (bits >> shift) & 1
    normal = (bits + (odd + ((1 << (shift - 1)) - 1))) >> shift
    if form.exponent_bits == 8:
        return normal
    normal = normal - ((127 - form.bias) << form.fraction_bits)
    # Beside this power the last place of an f32 is the least subnormal number: adding rounds.
    power = 2.0 ** (24 - form.bias - form.fraction_bits)
    subnormal = to_unsigned(x + power) - to_unsigned(x.like(power))
    return select(x < 2.0 ** (1 - form.bias), subnormal, normal)


def _excess(form: Format, *, saturate: bool) -> int:
    """The code for what is too large."""
    if saturate or form.nan is None:
        return form.largest
    return form.infinity if form.infinity is not None else form.nan


def _decode_power(x: Value) -> Value:
    """f8e8m0: a power of two by its biased exponent; the least is subnormal in f32."""
    code = _widened(x)
    power = reinterpret(code << 23, f32)
    power = select(equal(code, 0), 2.0**-127, power)
    return select(equal(code, 255), float("nan"), power)


def _encode_power(x: Value) -> Value:
    """The nearest power of two, of two the larger; of what is not positive NaN."""
    bits = to_unsigned(x)
    exponent = (bits >> 23) + ((bits >> 22) & 1)
    least = select(bits < 0x600000, bits.like(0), 1)
    code = select(bits < 0x800000, least, exponent)
    powerless = equal(bits, 0) | (bits >= 0x7F400000)
    return _narrowed(select(powerless, 255, code), dtypes.f8e8m0)


def to_unsigned(x: Value) -> Value:
    """The encoding of an f32 as unsigned integers."""
    return reinterpret(x, u32)


def _as_float(x: Value) -> Value:
    """Small whole numbers as f32."""
    return x.derive(f"uitofp {x.typed} to {spell(f32, x.lanes)}", f32)


def _cast_half(x: Value) -> Value:
    half = x.derive(f"bitcast {x.typed} to {_half(x.lanes)}").text
    return x.derive(f"fpext {_half(x.lanes)} {half} to {spell(f32, x.lanes)}", f32)


def _half(lanes: int) -> str:
    return "half" if lanes == 1 else f"<{lanes} x half>"


def _widened(x: Value) -> Value:
    narrow = Value(x.code, u16 if x.dtype.bits == 16 else u8, x.lanes, x.text)
    return narrow.derive(f"zext {narrow.typed} to {spell(u32, x.lanes)}", u32)


def _narrowed(code: Value, dtype: DType) -> Value:
    return code.derive(f"trunc {code.typed} to {spell(dtype, code.lanes)}", dtype)


def round_to_odd(x: Value) -> Value:
    """f64 to f32 such that rounding once more gives what rounding at once would.

    What lies between two f32 becomes the one whose last bit is set, and so never a tie.
    """
    near = x.derive(f"fptrunc {x.typed} to {spell(f32, x.lanes)}", f32)
    back = near.derive(f"fpext {near.typed} to {x.type}", x.dtype)
    inward = select(absolute(back) > absolute(x), to_bits(near) - 1, to_bits(near))
    exact = equal(back, x)
    return reinterpret(select(exact, inward, inward | Value.of(x.code, i32, 1)), f32)
