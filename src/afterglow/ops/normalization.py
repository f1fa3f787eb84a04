"""Normalizations: numbers brought to mean 0, to variance 1, or to length 1.

Where an op has a channel axis, `axis` says which one, and its parameters run along it alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.graph.op import aligned_axis
from afterglow.ops.channels import ChannelSums, along, emit_along
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Div, Mul, Neg, Sub, scalar
from afterglow.ops.functions import Reciprocal, Sqrt
from afterglow.ops.movement import Pad, PadMode, Reshape, Slice
from afterglow.ops.norm_gradient import NormGradient
from afterglow.ops.power import Pow
from afterglow.ops.reduction import ReduceMean
from afterglow.ops.rules import (
    broadcast_shape,
    normal_axis,
    require,
    require_float,
    require_same_dtype,
    require_shape,
)
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types import dtype as d


def emit_wide(b: Builder, x: Value) -> Value:
    """`x` in the precision in which its squares are summed."""
    return b.emit(Cast(d.f32), x) if x.type.dtype.is_narrow_float else x


def emit_like(b: Builder, x: Value, like: Value) -> Value:
    """`x` back in the element type of `like`."""
    return x if x.type.dtype is like.type.dtype else b.emit(Cast(like.type.dtype), x)


def emit_standardized(b: Builder, x: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon) over `axes`."""
    centred = b.emit(Sub(), x, b.emit(ReduceMean(axes), x))
    return _emit_to_unit(b, centred, axes, epsilon)


def _emit_to_unit(b: Builder, x: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """x / sqrt(mean of squares + epsilon) over `axes`."""
    square = b.emit(ReduceMean(axes), b.emit(Mul(), x, x))
    return b.emit(Div(), x, b.emit(Sqrt(), b.emit(Add(), square, scalar(b, epsilon, x))))


def _standardized(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    variance = np.square(centred).mean(axes, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + epsilon))


def along_channels(axis: int, channels: int, result: TensorType) -> int | None:
    """The only axis of a vector along the channel axis, where an axis of the result is that one."""
    return 0 if axis == channels % result.rank else None


@op("batch_norm")
class BatchNorm(Op):
    """(x - mean) / sqrt(variance + epsilon) scale + bias, with one value of each per channel.

    `momentum` is the share that a batch has in the running mean and variance after it, in training.
    """

    inplace = ("x",)
    along_axis = ("scale", "bias", "mean", "variance")
    epsilon: float = 1e-5
    axis: int = -1
    momentum: float = 0.1

    def infer(
        self,
        x: TensorType,
        scale: TensorType,
        bias: TensorType,
        mean: TensorType,
        variance: TensorType,
    ) -> TensorType:
        """The type of x; the others are vectors along its channel axis."""
        require_float(x=x)
        require_same_dtype(x=x, scale=scale, bias=bias, mean=mean, variance=variance)
        channels = x.shape[normal_axis(self.axis, x)]
        require_shape((channels,), scale=scale, bias=bias, mean=mean, variance=variance)
        return x

    def evaluate(self, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
        """By the definition."""
        axis = self.axis % x.ndim
        factor = scale / np.sqrt(variance + self.epsilon)
        centred = x - along(mean, axis, x.ndim)
        return centred * along(factor, axis, x.ndim) + along(bias, axis, x.ndim)

    def lower(
        self, b: Builder, x: Value, scale: Value, bias: Value, mean: Value, variance: Value
    ) -> Value:
        """One multiplication and one addition: the rest is done once a channel."""
        axis, rank = normal_axis(self.axis, x.type), x.type.rank
        root = b.emit(Sqrt(), b.emit(Add(), variance, scalar(b, self.epsilon, x)))
        factor = b.emit(Div(), scale, root)
        shift = b.emit(Sub(), bias, b.emit(Mul(), mean, factor))
        scaled = b.emit(Mul(), x, emit_along(b, factor, axis, rank))
        return b.emit(Add(), scaled, emit_along(b, shift, axis, rank))

    def gradient(
        self,
        b: Builder,
        out: Value,
        grad: Value,
        x: Value,
        scale: Value,
        bias: Value,
        mean: Value,
        variance: Value,
    ) -> Gradients:
        """All of them from two sums for each channel, of grad and of grad (x - mean)."""
        axis, rank = normal_axis(self.axis, x.type), x.type.rank
        total, product = b.emit_all(ChannelSums(self.axis), grad, x, mean)
        root = b.emit(Sqrt(), b.emit(Add(), variance, scalar(b, self.epsilon, x)))
        inverse = b.emit(Reciprocal(), root)
        factor = b.emit(Mul(), scale, inverse)
        of_scale = b.emit(Mul(), product, inverse)
        cubed = b.emit(Mul(), b.emit(Mul(), factor, inverse), scalar(b, -0.5, x))
        return (
            b.emit(Mul(), grad, emit_along(b, factor, axis, rank)),
            of_scale,
            total,
            b.emit(Neg(), b.emit(Mul(), factor, total)),
            b.emit(Mul(), cubed, of_scale),
        )

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Every axis follows x; the parameters follow the channels."""
        return (axis, *(along_channels(axis, self.axis, result) for _ in operands[1:]))

    def permuted(self, perm: tuple[int, ...]) -> Op:
        """The channels at their new place."""
        return replace(self, axis=perm.index(self.axis % len(perm)))


@dataclass(frozen=True, repr=False)
class TrailingNorm(Op):
    """Base: what lies along the axes from `axis` on is normalized together."""

    inplace = ("x",)
    reads_once = ("x",)
    axis: int = -1
    epsilon: float = 1e-5

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """The axes before those that are normalized."""
        if axis >= self.axis % result.rank:
            return None
        return tuple(None if x is None else aligned_axis(axis, result, x) for x in operands)

    def permuted(self, perm: tuple[int, ...]) -> Op | None:
        """Itself, if the normalised axes stay among themselves."""
        return self if _keeps_axes_from(self.axis, perm) else None

    def emit_gradients(
        self, b: Builder, grad: Value, x: Value, scale: Value | None, *, centred: bool
    ) -> tuple[Value, Value, Value] | None:
        """What x, scale and bias get, by one op on rows; None if the scale differs between rows."""
        normalized = x.type.shape[self.axis % x.type.rank :]
        if scale is not None and not _is_one_row(scale, normalized):
            return None
        width = math.prod(normalized)
        rows = (x.type.size // width, width)
        dx, dscale, dbias = b.emit_all(
            NormGradient(self.epsilon, centred),
            _shaped(b, grad, rows),
            _shaped(b, x, rows),
            None if scale is None else _shaped(b, scale, (width,)),
        )
        return _shaped(b, dx, x.type.shape), dscale, dbias


@op("layer_norm")
class LayerNorm(TrailingNorm):
    """x normalized to mean 0, variance 1 over the axes from `axis` on, times scale, plus bias."""

    def infer(
        self, x: TensorType, scale: TensorType | None = None, bias: TensorType | None = None
    ) -> TensorType:
        """The type of x; scale and bias broadcast to its shape."""
        require_float(x=x)
        normal_axis(self.axis, x)
        _require_broadcast(x, scale, "scale")
        _require_broadcast(x, bias, "bias")
        return x

    def evaluate(self, x: Array, scale: Array | None = None, bias: Array | None = None) -> Array:
        """By the definition."""
        y = _standardized(x, _axes_from(self.axis, x.ndim), self.epsilon)
        y = y if scale is None else y * scale
        return y if bias is None else y + bias

    def gradient(
        self,
        b: Builder,
        out: Value,
        grad: Value,
        x: Value,
        scale: Value | None = None,
        bias: Value | None = None,
    ) -> Gradients | None:
        """Those of the rows."""
        found = self.emit_gradients(b, grad, x, scale, centred=True)
        if found is None:
            return None
        dx, dscale, dbias = found
        of_scale = None if scale is None else _shaped(b, dscale, scale.type.shape)
        if bias is None or not _is_one_row(bias, x.type.shape[self.axis % x.type.rank :]):
            return dx, of_scale, grad
        return dx, of_scale, _shaped(b, dbias, bias.type.shape)

    def lower(
        self, b: Builder, x: Value, scale: Value | None = None, bias: Value | None = None
    ) -> Value:
        """As `evaluate`, from primitive ops."""
        axes = _axes_from(self.axis, x.type.rank)
        y = emit_like(b, emit_standardized(b, emit_wide(b, x), axes, self.epsilon), x)
        y = y if scale is None else b.emit(Mul(), y, scale)
        return y if bias is None else b.emit(Add(), y, bias)


@op("rms_norm")
class RMSNorm(TrailingNorm):
    """x / sqrt(mean(x²) + epsilon) over the axes from `axis` on, times scale."""

    def infer(self, x: TensorType, scale: TensorType | None = None) -> TensorType:
        """The type of x; the scale broadcasts to its shape."""
        require_float(x=x)
        normal_axis(self.axis, x)
        _require_broadcast(x, scale, "scale")
        return x

    def evaluate(self, x: Array, scale: Array | None = None) -> Array:
        """By the definition."""
        square = np.square(x).mean(_axes_from(self.axis, x.ndim), keepdims=True)
        y = x / np.sqrt(square + self.epsilon)
        return y if scale is None else y * scale

    def gradient(
        self, b: Builder, out: Value, grad: Value, x: Value, scale: Value | None = None
    ) -> Gradients | None:
        """Those of the rows."""
        found = self.emit_gradients(b, grad, x, scale, centred=False)
        if found is None or scale is None:
            return None if found is None else found[:1]
        return found[0], _shaped(b, found[1], scale.type.shape)

    def lower(self, b: Builder, x: Value, scale: Value | None = None) -> Value:
        """As `evaluate`, from primitive ops."""
        axes = _axes_from(self.axis, x.type.rank)
        y = emit_like(b, _emit_to_unit(b, emit_wide(b, x), axes, self.epsilon), x)
        return y if scale is None else b.emit(Mul(), y, scale)


def group_width(channels: int, groups: int) -> int:
    """How many channels a group has; all groups have as many."""
    require(
        groups > 0 and channels % groups == 0,
        f"{channels} channels do not divide into {groups} groups",
    )
    return channels // groups


@op("group_norm")
class GroupNorm(Op):
    """x normalized per sample and group of channels, then scaled and shifted per channel.

    Axis 0 counts the samples. As many groups as channels is instance normalization.
    """

    inplace = ("x",)
    along_axis = ("scale", "bias")
    groups: int
    epsilon: float = 1e-5
    axis: int = -1

    def infer(self, x: TensorType, scale: TensorType, bias: TensorType) -> TensorType:
        """The type of x; the others are vectors along its channel axis."""
        require_float(x=x)
        require_same_dtype(x=x, scale=scale, bias=bias)
        axis = normal_axis(self.axis, x)
        require(axis > 0, f"axis 0 counts the samples, it cannot hold the channels of {x}")
        channels = x.shape[axis]
        group_width(channels, self.groups)
        require_shape((channels,), scale=scale, bias=bias)
        return x

    def evaluate(self, x: Array, scale: Array, bias: Array) -> Array:
        """Give the groups an axis of their own."""
        axis = self.axis % x.ndim
        grouped, axes = self._grouping(x.shape)
        y = _standardized(x.reshape(grouped), axes, self.epsilon).reshape(x.shape)
        return y * along(scale, axis, x.ndim) + along(bias, axis, x.ndim)

    def lower(self, b: Builder, x: Value, scale: Value, bias: Value) -> Value:
        """As `evaluate`, from primitive ops."""
        axis, rank = normal_axis(self.axis, x.type), x.type.rank
        grouped, axes = self._grouping(x.type.shape)
        apart = b.emit(Reshape(grouped), emit_wide(b, x))
        y = b.emit(Reshape(x.type.shape), emit_standardized(b, apart, axes, self.epsilon))
        scaled = b.emit(Mul(), emit_like(b, y, x), emit_along(b, scale, axis, rank))
        return b.emit(Add(), scaled, emit_along(b, bias, axis, rank))

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Images only: the groups of one are normalized over all its axes."""
        return (0, None, None) if axis == 0 else None

    def permuted(self, perm: tuple[int, ...]) -> Op | None:
        """The channels at their new place, if the samples keep theirs."""
        if perm[0] != 0:
            return None
        return replace(self, axis=perm.index(self.axis % len(perm)))

    def _grouping(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape with an axis of groups before that of channels, and the axes to reduce."""
        axis = self.axis % len(shape)
        split = (self.groups, shape[axis] // self.groups)
        grouped = (*shape[:axis], *split, *shape[axis + 1 :])
        return grouped, tuple(i for i in range(1, len(grouped)) if i != axis)


@op("lrn")
class LRN(Op):
    """x / (bias + alpha / size s) ** beta, where s sums the squares of `size` adjacent channels."""

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0
    axis: int = -1

    def infer(self, x: TensorType) -> TensorType:
        """The operand's own type."""
        require_float(x=x)
        normal_axis(self.axis, x)
        require(self.size > 0, f"size must be positive, got {self.size}")
        return x

    def evaluate(self, x: Array) -> Array:
        """Sum shifted squares; beyond the ends they are 0."""
        axis = self.axis % x.ndim
        counts = [self._reach() if i == axis else (0, 0) for i in range(x.ndim)]
        squares = np.moveaxis(np.pad(np.square(x), counts), axis, -1)
        channels = x.shape[axis]
        total = sum(squares[..., i : i + channels] for i in range(self.size))
        base = self.bias + self.alpha / self.size * np.moveaxis(np.asarray(total), -1, axis)
        return x / np.power(base, self.beta)

    def lower(self, b: Builder, x: Value) -> Value:
        """As `evaluate`, from primitive ops."""
        axis, shape = normal_axis(self.axis, x.type), x.type.shape
        before, after = ([0] * len(shape), [0] * len(shape))
        before[axis], after[axis] = self._reach()
        pad = Pad(tuple(before), tuple(after), PadMode.CONSTANT)
        squares = b.emit(pad, b.emit(Mul(), x, x))
        total = b.emit(self._window(0, axis, shape), squares)
        for start in range(1, self.size):
            total = b.emit(Add(), total, b.emit(self._window(start, axis, shape), squares))
        scaled = b.emit(Mul(), total, scalar(b, self.alpha / self.size, x))
        base = b.emit(Add(), scaled, scalar(b, self.bias, x))
        return b.emit(Div(), x, b.emit(Pow(), base, scalar(b, self.beta, x)))

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Every axis but the channels, which look at their neighbours."""
        return None if axis == self.axis % result.rank else (axis,)

    def permuted(self, perm: tuple[int, ...]) -> Op:
        """The channels at their new place."""
        return replace(self, axis=perm.index(self.axis % len(perm)))

    def _reach(self) -> tuple[int, int]:
        """How many channels before and after count; an even size looks further ahead."""
        return (self.size - 1) // 2, math.ceil((self.size - 1) / 2)

    @staticmethod
    def _window(start: int, axis: int, shape: tuple[int, ...]) -> Slice:
        starts = tuple(start if i == axis else 0 for i in range(len(shape)))
        return Slice(starts, shape, (1,) * len(shape))


def _axes_from(axis: int, rank: int) -> tuple[int, ...]:
    return tuple(range(axis % rank, rank))


def _is_one_row(part: Value, normalized: tuple[int, ...]) -> bool:
    """Whether a parameter has an element for each of those that are normalized together."""
    shape = part.type.shape
    return shape[-len(normalized) :] == normalized and part.type.size == math.prod(normalized)


def _shaped(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    return x if x.type.shape == shape else b.emit(Reshape(shape), x)


def _keeps_axes_from(axis: int, perm: tuple[int, ...]) -> bool:
    first = axis % len(perm)
    return sorted(perm[first:]) == list(range(first, len(perm)))


def _require_broadcast(x: TensorType, part: TensorType | None, name: str) -> None:
    if part is None:
        return
    require_same_dtype(**{"x": x, name: part})
    fits = broadcast_shape(**{"x": x, name: part}) == x.shape
    require(fits, f"{name} must broadcast to the shape of x, got {part} and {x}")
