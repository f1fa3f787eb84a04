"""Weights and biases as integers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from afterglow.ops.quantization import DequantizeLinear
from afterglow.quantization.scheme import LEAST_SCALE, Scheme, fit
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType
from afterglow.types.dtype import f32, i4, i8, u4, u8

WEIGHT_TYPES = (i8, u8, i4, u4)
SHRINKAGE = 1 - 0.02 * np.arange(1, 21)
"""Parts of a range that a search tries beside the whole."""
FEW_SHRINKAGES = 1 - 0.06 * np.arange(1, 4)
"""Fewer parts, which find most of what all of them would."""
MOST_BIAS = 2**30
"""Biases are at most that: the sum of products must have room beside them in 32 bits."""
_BLOCK = 1 << 17
"""Weights that are searched at once, so that they stay in a cache."""


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """Integers, or floats of 8 bits, scales and offsets, as `dequantize_linear` takes them."""

    stored: Array
    scales: Array
    """Floats: one number; one for each index of `axis`; or one for each block along it."""
    offsets: Array | None
    """Integers of the same type as stored and of the shape of the scales; None: all are zero."""
    axis: int = 0
    block_size: int = 0

    @property
    def op(self) -> DequantizeLinear:
        """The op that computes the real weights."""
        return DequantizeLinear(self.axis, block_size=self.block_size)

    @property
    def parts(self) -> dict[str, Array | None]:
        """The operands of the op, by the names that constants of them get."""
        return {"stored": self.stored, "scale": self.scales, "zero": self.offsets}

    @property
    def limits(self) -> tuple[int, int]:
        """The integers that may be stored."""
        scheme = Scheme.SYMMETRIC if self.offsets is None else Scheme.ASYMMETRIC
        return weight_limits(DType.of(self.stored.dtype), scheme)

    def dequantized(self) -> Array:
        """The real weights."""
        return self.op.evaluate(self.stored, self.scales, self.offsets)


def quantize_weight(
    weight: Array,
    axis: int | None,
    dtype: DType = i8,
    scheme: Scheme = Scheme.SYMMETRIC,
    *,
    search: bool = False,
    least_scales: Array | float = LEAST_SCALE,
) -> QuantizedWeight:
    """One scale for each index along an axis, or one for all.

    With `search`, the range is the part of that of the weights which has the least squared error.
    Scales are no less than `least_scales`, which a bias may ask for.
    """
    along = 0 if axis is None else axis % weight.ndim
    if axis is None:
        rows = weight.reshape(1, -1)
    else:
        rows = np.moveaxis(weight, along, 0).reshape(weight.shape[along], -1)
    limits = weight_limits(dtype, scheme)
    scales, offsets = choose_scales(rows, scheme, limits, search=search, least=least_scales)
    shape = () if axis is None else scales.shape
    broad = [-1 if i == along and axis is not None else 1 for i in range(weight.ndim)]
    stored = to_integers(weight, scales.reshape(broad), offsets.reshape(broad), limits)
    zeros = offsets.reshape(shape).astype(dtype.numpy) if offsets.any() else None
    return QuantizedWeight(stored.astype(dtype.numpy), scales.reshape(shape), zeros, along)


def round_to_floats(rows: Array, dtype: DType) -> QuantizedWeight:
    """One scale for each row, by which its largest number becomes that of a float type."""
    _check_finite(rows)
    most = dtype.finite_limits[1]
    peaks = np.abs(rows).max(1, initial=0).astype(np.float64)
    scales = np.maximum(peaks / most, LEAST_SCALE).astype(np.float32)
    stored = np.clip(rows / scales[:, None], -most, most).astype(dtype.numpy)
    return QuantizedWeight(stored, scales, None)


def quantize_groups(
    weight: Array,
    axis: int,
    size: int,
    dtype: DType = u4,
    scheme: Scheme = Scheme.ASYMMETRIC,
    *,
    search: bool = True,
    scale_dtype: DType = f32,
    tried: Array = SHRINKAGE,
) -> QuantizedWeight:
    """One scale for each `size` neighbours along an axis, the depth; the last may have fewer.

    Scales may be of a narrower type: then weights are rounded to multiples of these. A search
    tries the given parts of a range beside the whole.
    """
    axis %= weight.ndim
    deep = np.moveaxis(weight, axis, -1)
    depth = deep.shape[-1]
    count = -(-depth // size)
    padded = deep
    if rest := count * size - depth:
        padded = np.pad(deep, [(0, 0)] * (weight.ndim - 1) + [(0, rest)])
    rows = np.ascontiguousarray(padded).reshape(-1, size)
    limits = weight_limits(dtype, scheme)
    chosen, offsets = choose_scales(rows, scheme, limits, search=search, tried=tried)
    scales = chosen.astype(scale_dtype.numpy)
    stored = _rows_to_integers(rows, scales.astype(np.float32), offsets, limits)
    whole = stored.reshape(padded.shape)[..., :depth].astype(dtype.numpy)
    shape = (*deep.shape[:-1], count)
    zeros = offsets.astype(dtype.numpy).reshape(shape) if offsets.any() else None
    return QuantizedWeight(
        _moved(whole, axis),
        _moved(scales.reshape(shape), axis),
        None if zeros is None else _moved(zeros, axis),
        axis,
        size,
    )


def weight_limits(dtype: DType, scheme: Scheme) -> tuple[int, int]:
    """The integers that weights use: symmetric bytes leave out the one without an opposite."""
    if dtype not in WEIGHT_TYPES:
        known = ", ".join(map(str, WEIGHT_TYPES))
        raise UsageError(f"weights are quantized to {known}, not to {dtype}")
    return (-127, 127) if dtype is i8 and scheme is not Scheme.ASYMMETRIC else dtype.limits


def choose_scales(
    rows: Array,
    scheme: Scheme,
    limits: tuple[int, int],
    *,
    search: bool = False,
    least: Array | float = LEAST_SCALE,
    tried: Array = SHRINKAGE,
) -> tuple[Array, Array]:
    """A scale, of at least `least`, and an offset for each row of a matrix.

    A search tries those parts of a range.
    """
    _check_finite(rows)
    least = np.broadcast_to(least, len(rows))
    low, high = rows.min(1, initial=0), rows.max(1, initial=0)
    scales, offsets = fit(low, high, scheme, limits, least)
    if search:
        step = max(1, _BLOCK // max(1, rows.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            others = (
                fit(shrunk * low[part], shrunk * high[part], scheme, limits, least[part])
                for shrunk in tried
            )
            _search(rows[part], scales[part], offsets[part], others, limits)
    return scales, offsets


def to_integers(x: Array, scales: Array, offsets: Array, limits: tuple[int, int]) -> Array:
    """The integers, as i32, whose real numbers are nearest to x."""
    return np.asarray(np.clip(np.rint(x / scales) + offsets, *limits), np.int32)


def _rows_to_integers(rows: Array, scales: Array, offsets: Array, limits: tuple[int, int]) -> Array:
    """The same for a scale and an offset a row, as i16; some rows at a time stay in a cache."""
    made = np.empty(rows.shape, np.int16)
    step = max(1, _BLOCK // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        numbers = np.rint(rows[part] / scales[part, None])
        numbers += offsets[part, None].astype(np.float32)
        np.clip(numbers, *limits, out=made[part], casting="unsafe")
    return made


def least_scales(bias: Array, input_scale: float) -> Array:
    """For each channel, the least weight scale for which the bias fits into its integer."""
    return np.asarray(np.abs(bias.astype(np.float64)) / input_scale / MOST_BIAS)


def quantize_bias(bias: Array, input_scale: float, weight_scales: Array) -> tuple[Array, Array]:
    """The bias as integers of 32 bits, and their scale: that of sums of products.

    Those beyond what 32 bits have room for saturate; `least_scales` tells how none is.
    """
    scales = (np.float32(input_scale) * weight_scales).astype(np.float32)
    integers = np.clip(np.rint(bias.astype(np.float64) / scales), -MOST_BIAS, MOST_BIAS)
    return integers.astype(np.int32), scales


def _check_finite(rows: Array) -> None:
    if not np.isfinite(rows).all():
        raise UsageError("weights that are infinite or not a number cannot be quantized")


def _search(
    rows: Array,
    scales: Array,
    offsets: Array,
    tried: Iterable[tuple[Array, Array]],
    limits: tuple[int, int],
) -> None:
    """Replace scales and offsets by those tried that have less error."""
    least = _squared_errors(rows, scales, offsets, limits)
    for others in tried:
        errors = _squared_errors(rows, *others, limits)
        better = errors < least
        np.copyto(least, errors, where=better)
        np.copyto(scales, others[0], where=better)
        np.copyto(offsets, others[1], where=better)


def _squared_errors(rows: Array, scales: Array, offsets: Array, limits: tuple[int, int]) -> Array:
    """The squared error of each row; in place, as memory would take longer than arithmetic."""
    steps = rows * (1 / scales)[:, None]
    if offsets.any():
        steps += offsets.astype(np.float32)[:, None]
    rest = np.rint(steps)
    np.clip(rest, *limits, out=rest)
    rest -= steps
    return np.asarray(np.einsum("rn,rn->r", rest, rest) * scales**2)


def _moved(deep: Array, axis: int) -> Array:
    """The last axis at another place."""
    return np.ascontiguousarray(np.moveaxis(deep, -1, axis))
