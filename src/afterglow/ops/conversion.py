"""Conversion between element types."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.ops.rules import require
from afterglow.support.errors import UsageError
from afterglow.types import Array, DType, TensorType
from afterglow.types import dtype as d
from afterglow.types.dtype import Kind

FLOAT8 = (d.f8e4m3fn, d.f8e4m3fnuz, d.f8e5m2, d.f8e5m2fnuz)
"""The types of eight bits that have a sign and a mantissa."""


class PowerRounding(Enum):
    """Which power of two stands for a number between two of them."""

    UP = "up"
    DOWN = "down"
    NEAREST = "nearest"


@op("cast")
class Cast(Op):
    """x converted to another element type.

    Floats become integers by dropping the fraction, integers of fewer bits by dropping high bits,
    and booleans by asking whether they differ from zero. `saturate` clips to the finite range of an
    8-bit float, where else the result is NaN or infinite; `round_mode` is for f8e8m0 alone.
    """

    elementwise = True
    dtype: DType
    saturate: bool = True
    round_mode: PowerRounding = PowerRounding.UP

    def infer(self, x: TensorType) -> TensorType:
        """The same shape; complex numbers stay complex."""
        complex_lost = x.dtype.kind is Kind.COMPLEX and self.dtype.kind is not Kind.COMPLEX
        require(not complex_lost, f"complex numbers cannot become {self.dtype}, got {x}")
        return x.with_dtype(self.dtype)

    def evaluate(self, x: Array) -> Array:
        """By what the result holds."""
        if x.dtype.kind == "O":
            x = _parsed(x, self.dtype)
        if self.dtype is d.string:
            return _strings(x)
        if self.dtype is d.f8e8m0:
            return _powers_of_two(x, self.saturate, self.round_mode)
        if self.dtype in FLOAT8:
            return to_float8(x, self.dtype, self.saturate)
        if self.dtype.is_integer and self.dtype.bits < 32 and x.dtype.kind not in "biu":
            x = x.astype(np.int32)  # floats then wrap around; of narrow integers not all meet
        return x.astype(self.dtype.numpy)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Cast back."""
        return (b.emit(Cast(x.type.dtype), grad),)


def to_float8(x: Array, dtype: DType, saturate: bool) -> Array:
    """Round to an 8-bit float type; what is too large becomes its largest number, or overflows."""
    x = x.astype(np.float32)
    if saturate:
        largest = dtype.finite_limits[1]
        x = np.clip(x, -largest, largest)
    return x.astype(dtype.numpy)


def _powers_of_two(x: Array, saturate: bool, mode: PowerRounding) -> Array:
    """Codes 0 to 254 stand for 2**-127 to 2**127, and 255 for NaN."""
    mantissa, exponent = np.frexp(np.abs(x.astype(np.float64)))
    carry = {
        PowerRounding.UP: mantissa > 0.5,
        PowerRounding.DOWN: np.zeros(x.shape, np.bool_),
        PowerRounding.NEAREST: mantissa >= 0.75,
    }[mode]
    code = np.where(mantissa == 0, -np.inf, exponent - 1 + carry + 127.0)
    code = np.where(np.isinf(mantissa), np.inf, code)
    if saturate:
        code = np.clip(code, 0, 254)
    valid = (code >= 0) & (code <= 254) & ~np.isnan(mantissa)
    return np.where(valid, code, 255).astype(np.uint8).view(d.f8e8m0.numpy)


def _strings(x: Array) -> Array:
    strings = np.empty(x.size, np.object_)
    strings[:] = [str(element) for element in x.reshape(-1)]
    return strings.reshape(x.shape)


def _parsed(x: Array, dtype: DType) -> Array:
    """Numbers parsed from strings; strings unchanged if those are the target."""
    if dtype is d.string:
        return x
    if not dtype.is_integer:
        return np.array([_number(text, float) for text in x.reshape(-1)]).reshape(x.shape)
    numbers = [_number(text, _integer) for text in x.reshape(-1)]
    return np.array(numbers, np.uint64 if dtype is d.u64 else np.int64).reshape(x.shape)


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def _number(text: object, parse: Callable[[str], float]) -> float:
    """The number that a string spells; a usage error if it spells none."""
    try:
        return parse(str(text))
    except (ValueError, OverflowError):
        raise UsageError(f"cast: {str(text)!r} is not a number of the type asked for") from None
