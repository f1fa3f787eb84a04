"""Ops that observe a tensor: how often values occur in it, and the range of each channel."""

from __future__ import annotations

import math

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import (
    Abs,
    Add,
    And,
    BitCast,
    Div,
    Equal,
    Floor,
    Max,
    Mul,
    Where,
    scalar,
)
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import ScatterND, ScatterReduction
from afterglow.ops.movement import Reshape, Slice
from afterglow.ops.reduction import ReduceMax, ReduceMean, ReduceMin
from afterglow.ops.rules import require, require_dtype, require_rank
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, i32, i64

EXPONENT, ONE_MORE = 0x7F800000, 0x00800000
"""Bits of the exponent of f32, and what makes it one larger."""


@op("histogram")
class Histogram(Op):
    """How many elements of x lie in each of `bins` equal parts of the range [-reach, reach).

    Elements outside are counted in the first or the last bin, NaN in the first. Of the rows along
    the last axis only every n-th is counted, if `every` is n.
    """

    bins: int
    every: int = 1

    def infer(self, x: TensorType, reach: TensorType) -> TensorType:
        """A count for each bin."""
        require_dtype(f32, x=x, reach=reach)
        require_rank(0, reach=reach)
        require(self.bins > 0 and self.bins % 2 == 0, f"bins must be even, got {self.bins}")
        require(self.every > 0, f"every must be above 0, got {self.every}")
        return TensorType(i32, (self.bins,))

    def evaluate(self, x: Array, reach: Array) -> Array:
        """Bins from zero on, in float32."""
        half = np.float32(self.bins // 2)
        with np.errstate(all="ignore"):
            places = np.floor(self.counted(x) * (half / reach)) + half
        places = np.where(np.isnan(places), 0, places.clip(0, self.bins - 1))
        return np.bincount(places.astype(np.int64).reshape(-1), minlength=self.bins).astype(
            np.int32
        )

    def counted(self, x: Array) -> Array:
        """The rows that are counted."""
        rows = x.reshape(1, 1) if x.ndim == 0 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        return rows[:: self.every]

    def rows(self, x: TensorType) -> int:
        """How many rows are counted."""
        return -(-math.prod(x.shape[:-1]) // self.every)

    def lower(self, b: Builder, x: Value, reach: Value) -> Value:
        """Ones, added at the place of each element."""
        columns = x.type.shape[-1] if x.type.rank else 1
        flat = b.emit(Reshape((math.prod(x.type.shape[:-1]), columns)), x)
        extents = (self.rows(x.type), columns)
        taken = b.emit(Slice((0, 0), extents, (self.every, 1)), flat) if self.every > 1 else flat
        half = scalar(b, self.bins // 2, x)
        scaled = b.emit(Mul(), taken, b.emit(Div(), half, reach))
        places = b.emit(Clip(0.0, self.bins - 1.0), b.emit(Add(), b.emit(Floor(), scaled), half))
        places = b.emit(Where(), b.emit(Equal(), places, places), places, scalar(b, 0, x))
        count = math.prod(extents)
        tuples = b.emit(Reshape((count, 1)), b.emit(Cast(i64), places))
        zeros = b.emit(Fill((self.bins,), 0, i32))
        ones = b.emit(Fill((count,), 1, i32))
        return b.emit(ScatterND(ScatterReduction.ADD), zeros, tuples, ones)


@op("reach")
class Reach(Op):
    """The power of two above the magnitudes of all elements of low and high, within bounds.

    If one of them is NaN it is the larger bound. Bounds are powers of two as well.
    """

    least: float
    most: float

    def infer(self, low: TensorType, high: TensorType) -> TensorType:
        """One number."""
        require_dtype(f32, low=low, high=high)
        require_rank(1, low=low, high=high)
        is_power = all(n > 0 and math.frexp(n)[0] == 0.5 for n in (self.least, self.most))
        require(is_power, f"bounds must be powers of two, got {self.least} and {self.most}")
        return TensorType(f32, ())

    def evaluate(self, low: Array, high: Array) -> Array:
        """By the exponent of the largest magnitude."""
        size = max(np.abs(part).max(initial=0) for part in (low, high))
        if np.isnan(low).any() or np.isnan(high).any():
            size = np.float32(self.most)
        _, exponent = np.frexp(size.clip(self.least / 2, self.most / 2))
        return np.ldexp(np.float32(1), exponent)

    def lower(self, b: Builder, low: Value, high: Value) -> Value:
        """The bits of the exponent alone, and one more."""
        sizes = (b.emit(ReduceMax((0,), keepdims=False), b.emit(Abs(), x)) for x in (low, high))
        size = b.emit(Max(), *sizes)
        bits = b.emit(BitCast(i32), b.emit(Clip(self.least / 2, self.most / 2), size))
        power = b.emit(And(), bits, scalar(b, EXPONENT, bits))
        reach = b.emit(BitCast(f32), b.emit(Add(), power, scalar(b, ONE_MORE, bits)))
        return b.emit(Where(), b.emit(Equal(), size, size), reach, scalar(b, self.most, reach))


@op("channel_ranges")
class ChannelRanges(Op):
    """The smallest, the largest and the mean element of each channel, the last axis of x.

    The first two are NaN if one is NaN.
    """

    result_names = ("low", "high", "mean")

    def infer(self, x: TensorType) -> tuple[TensorType, TensorType, TensorType]:
        """A number for each channel."""
        require_dtype(f32, x=x)
        require(x.rank > 0, f"x must have an axis of channels, got {x}")
        channels = TensorType(f32, x.shape[-1:])
        return channels, channels, channels

    def evaluate(self, x: Array) -> tuple[Array, Array, Array]:
        """By three reductions."""
        axes = tuple(range(x.ndim - 1))
        low, high = (r(axes, keepdims=False).evaluate(x) for r in (ReduceMin, ReduceMax))
        return low, high, ReduceMean(axes, keepdims=False).evaluate(x)

    def lower(self, b: Builder, x: Value) -> tuple[Value, Value, Value]:
        """By three reductions."""
        axes = tuple(range(x.type.rank - 1))
        low, high, mean = (
            b.emit(reduction(axes, keepdims=False), x)
            for reduction in (ReduceMin, ReduceMax, ReduceMean)
        )
        return low, high, mean
