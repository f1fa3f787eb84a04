"""Which integers stand for a range of numbers, and how the range is chosen."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from afterglow.support.errors import UsageError
from afterglow.types import Array, DType, Quantization
from afterglow.types.dtype import i8, i16, u8

ELEMENT_TYPES = (i8, u8, i16)
"""Types that quantized activations are stored in."""
LEAST_SCALE = 2.0**-100
"""No scale is less: a product of two scales, of which one is larger, is a normal f32 number."""


class Scheme(StrEnum):
    """How scale and offset follow from a range, which always includes zero."""

    ASYMMETRIC = "asymmetric"
    """The ends of the range are the least and the greatest integer."""
    SYMMETRIC = "symmetric"
    """Zero is the middle integer."""
    SYMMETRIC_UINT8 = "symmetric_uint8"
    """Zero is the middle integer, or the least one where no number is negative."""
    POWER_OF_TWO = "power_of_two"
    """Zero is the middle integer, and the scale is a power of two."""


class Method(StrEnum):
    """How the range is chosen from what was observed."""

    MINMAX = "minmax"
    """All numbers observed."""
    AVERAGE = "average"
    """Moving averages of the least and the greatest number of each run."""
    PERCENTILE = "percentile"
    """All but a given share of the numbers."""
    ENTROPY = "entropy"
    """The range whose quantized histogram has the least divergence (KL) from the histogram."""
    MSE = "mse"
    """The range with the least mean squared error, of rounding and of saturation."""


def chosen_for(dtype: DType, scheme: Scheme, method: Method) -> tuple[Scheme, Method]:
    """The scheme and the method for a type: 16 bits are symmetric, and cover all observed."""
    if dtype is not i16:
        return scheme, method
    return scheme if scheme is Scheme.POWER_OF_TWO else Scheme.SYMMETRIC, Method.MINMAX


def parameters(low: float, high: float, scheme: Scheme, dtype: DType) -> Quantization:
    """Scale and offset of activations in a range."""
    if dtype not in ELEMENT_TYPES:
        known = ", ".join(map(str, ELEMENT_TYPES))
        raise UsageError(f"activations are quantized to {known}, not to {dtype}")
    scales, offsets = fit(np.array([low]), np.array([high]), scheme, dtype.limits)
    return Quantization((float(scales[0]),), (int(offsets[0]),))


def fit(
    low: Array,
    high: Array,
    scheme: Scheme,
    limits: tuple[int, int],
    least_scale: Array | float = LEAST_SCALE,
) -> tuple[Array, Array]:
    """Scales (f32) and offsets (i32) of ranges, each extended to zero, for integers in limits.

    The offset is an integer, so zero is exact; both ends of a range are within half a step of
    what the least and the greatest integer stand for. Ranges of zeros alone have scale 1.
    """
    low, high = np.minimum(low, 0).astype(np.float64), np.maximum(high, 0).astype(np.float64)
    least_scale = np.where(high > low, np.maximum(least_scale, LEAST_SCALE), 1.0)
    least, greatest = limits
    middle = (least + greatest + 1) // 2
    if scheme is Scheme.ASYMMETRIC:
        scales = _scales((high - low) / (greatest - least), least_scale)
        offsets = np.clip(np.rint(least - low / scales), least, greatest)
    else:
        extents = np.maximum(high / (greatest - middle), -low / (middle - least))
        scales = _scales(extents, least_scale)
        offsets = np.full(scales.shape, middle)
    if scheme is Scheme.SYMMETRIC_UINT8:
        scales = np.where(low < 0, scales, _scales(high / (greatest - least), least_scale))
        offsets = np.where(low < 0, offsets, least)
    elif scheme is Scheme.POWER_OF_TWO:
        scales = _power_of_two(scales)
    return scales, offsets.astype(np.int32)


def _scales(steps: Array, least: Array) -> Array:
    return np.maximum(steps, least).astype(np.float32)


def _power_of_two(scales: Array) -> Array:
    """The powers of two at or above the scales."""
    mantissas, exponents = np.frexp(scales)
    return np.asarray(np.ldexp(np.float32(1), exponents - (mantissas == 0.5)))
