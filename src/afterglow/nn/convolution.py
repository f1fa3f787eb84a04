"""Convolutions and poolings of [N, C, spatial…]; the ops are channels last, as an importer's."""

from __future__ import annotations

import math
from dataclasses import field
from typing import ClassVar, TypeAlias

from afterglow.graph import Op, Value
from afterglow.nn.basic import within
from afterglow.nn.checks import check_counts, check_initialisers, check_sizes
from afterglow.nn.init import Initialiser
from afterglow.nn.layer import Layer
from afterglow.nn.scope import Scope
from afterglow.ops import convolution as ops
from afterglow.ops import pooling
from afterglow.ops.movement import Transpose
from afterglow.ops.reduction import ReduceMean
from afterglow.support.errors import CompileError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import largest

Size: TypeAlias = "int | tuple[int, ...]"
"""An extent for each spatial axis; a number is that of all."""
AXES = {1: "N, C, length", 2: "N, C, height, width"}


def channels_last(scope: Scope, x: Value) -> Value:
    """Axis 1 moved to the end."""
    return scope.emit(Transpose((0, *range(2, x.type.rank), 1)), x)


def channels_first(scope: Scope, y: Value) -> Value:
    """The last axis moved to place 1."""
    rank = y.type.rank
    return scope.emit(Transpose((0, rank - 1, *range(1, rank - 1))), y)


def _each(size: Size, count: int) -> tuple[int, ...]:
    return tuple(size) if isinstance(size, (tuple, list)) else (size,) * count


def _check_reach(x: Value, kernel: Size, padding: Size, dilation: Size) -> None:
    """Refuse an image that a window does not fit into, even with its padding."""
    spatial = x.type.rank - 2
    sizes = (_each(size, spatial) for size in (kernel, padding, dilation))
    for axis, (extent, pad, step) in enumerate(zip(*sizes, strict=True), 2):
        reach, room = step * (extent - 1) + 1, largest(x.type.shape[axis]) + 2 * pad
        if reach > room:
            raise CompileError(
                f"its window has {reach} elements along axis {axis}, but its input {x.type} "
                f"has only {room} with its padding",
                help="make the window smaller or the padding larger, or shrink the image less "
                "before it",
            )


@dataclass(frozen=True, repr=False)
class Convolution(Layer):
    """Base: what convolutions of any rank share."""

    spatial: ClassVar[int]
    in_channels: int
    out_channels: int
    kernel_size: Size
    stride: Size = 1
    padding: Size = 0
    dilation: Size = 1
    groups: int = 1
    bias: bool = True
    weight_init: Initialiser | None = field(default=None, kw_only=True, repr=False)
    bias_init: Initialiser | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_counts(self, "in_channels", "out_channels", "groups")
        check_sizes(self, self.spatial, "kernel_size", "stride", "dilation")
        check_sizes(self, self.spatial, "padding", least=0)
        check_initialisers(self, "weight_init", "bias_init")

    @property
    def kernel(self) -> tuple[int, ...]:
        """The extents of the kernel."""
        return _each(self.kernel_size, self.spatial)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[outputs, inputs of a group, kernel…]."""
        return (self.out_channels, self.in_channels // self.groups, *self.kernel)

    def convolution(self) -> Op:
        """The op, for x and the weight channels last."""
        strides, pads, dilations = (
            _each(size, self.spatial) for size in (self.stride, self.padding, self.dilation)
        )
        return ops.Conv(strides, (*pads, *pads), dilations, self.groups)

    def build(self, scope: Scope, x: Value) -> Value:
        """Between two transposes, which the optimiser moves out of the network."""
        self._check(scope, x)
        default = within(math.prod(self.weight_shape[1:]))
        weight = scope.parameter("weight", self.weight_shape, self.weight_init or default)
        bias = None
        if self.bias:
            bias = scope.parameter("bias", (self.out_channels,), self.bias_init or default)
        x, weight_last = channels_last(scope, x), channels_last(scope, weight)
        return channels_first(scope, scope.emit(self.convolution(), x, weight_last, bias))

    def _check(self, scope: Scope, x: Value) -> None:
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise CompileError(
                f"{self.in_channels} and {self.out_channels} channels do not divide "
                f"into {self.groups} groups"
            )
        scope.expect_rank(x, AXES[self.spatial])
        here = x.type.shape[1]
        fix = f"make in_channels {here}, or change the layer before it"
        scope.expect(x, 1, self.in_channels, "channels", fix)
        self._check_window(x)

    def _check_window(self, x: Value) -> None:
        _check_reach(x, self.kernel_size, self.padding, self.dilation)


class Conv1d(Convolution):
    """Convolution of [N, C, length]."""

    spatial = 1


class Conv2d(Convolution):
    """Convolution of [N, C, height, width]."""

    spatial = 2


@dataclass(frozen=True, repr=False)
class ConvTranspose2d(Convolution):
    """Transposed convolution of [N, C, height, width]: its result is larger, by the stride."""

    spatial = 2
    output_padding: Size = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, self.spatial, "output_padding", least=0)
        sizes = (self.output_padding, self.stride, self.dilation)
        each = (_each(size, self.spatial) for size in sizes)
        if any(added >= max(steps) for added, *steps in zip(*each, strict=True)):
            raise UsageError(
                f"ConvTranspose2d: output_padding must be less than the stride or the dilation, "
                f"got {self.output_padding!r} with stride {self.stride!r} and dilation "
                f"{self.dilation!r}"
            )

    def _check_window(self, x: Value) -> None:
        """Its windows are of the result, which is as large as they need."""

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[inputs, outputs of a group, kernel…]."""
        return (self.in_channels, self.out_channels // self.groups, *self.kernel)

    def convolution(self) -> Op:
        """The op, for x and the weight channels last."""
        strides, pads, dilations, added = (
            _each(size, self.spatial)
            for size in (self.stride, self.padding, self.dilation, self.output_padding)
        )
        return ops.ConvTranspose(strides, (*pads, *pads), dilations, self.groups, added)


@dataclass(frozen=True, repr=False)
class MaxPool2d(Layer):
    """The largest element of each window; windows lie next to each other unless `stride` is set."""

    kernel_size: Size
    stride: Size | None = None
    padding: Size = 0
    dilation: Size = 1
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, 2, "dilation")
        _check_pool(self)

    def build(self, scope: Scope, x: Value) -> Value:
        """Between two transposes."""
        op = pooling.MaxPool(
            *_windows(self.kernel_size, self.stride, self.padding),
            _each(self.dilation, 2),
            self.ceil_mode,
        )
        scope.expect_rank(x, AXES[2])
        if not self.ceil_mode:  # or else a window may hang over the end
            _check_reach(x, self.kernel_size, self.padding, self.dilation)
        return _between_transposes(scope, op, x)


@dataclass(frozen=True, repr=False)
class AvgPool2d(Layer):
    """The mean of each window; windows lie next to each other unless `stride` is set."""

    kernel_size: Size
    stride: Size | None = None
    padding: Size = 0
    ceil_mode: bool = False
    count_include_pad: bool = True

    def __post_init__(self) -> None:
        _check_pool(self)

    def build(self, scope: Scope, x: Value) -> Value:
        """Between two transposes."""
        windows = _windows(self.kernel_size, self.stride, self.padding)
        op = pooling.AvgPool(*windows, (1, 1), self.ceil_mode, self.count_include_pad)
        scope.expect_rank(x, AXES[2])
        if not self.ceil_mode:  # as above
            _check_reach(x, self.kernel_size, self.padding, 1)
        return _between_transposes(scope, op, x)


@dataclass(frozen=True, repr=False)
class GlobalAvgPool(Layer):
    """The mean of each channel: [N, C, spatial…] becomes [N, C]."""

    def build(self, scope: Scope, x: Value) -> Value:
        """A mean over all spatial axes."""
        return scope.emit(ReduceMean(tuple(range(2, x.type.rank)), keepdims=False), x)


def _windows(
    kernel_size: Size, stride: Size | None, padding: Size
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    kernel, pads = _each(kernel_size, 2), _each(padding, 2)
    return kernel, _each(kernel if stride is None else stride, 2), (*pads, *pads)


def _check_pool(layer: MaxPool2d | AvgPool2d) -> None:
    check_sizes(layer, 2, "kernel_size", *(() if layer.stride is None else ("stride",)))
    check_sizes(layer, 2, "padding", least=0)
    each = zip(_each(layer.kernel_size, 2), _each(layer.padding, 2), strict=True)
    if any(2 * pad > extent for extent, pad in each):
        raise UsageError(
            f"{type(layer).__name__}: padding must be at most half of kernel_size "
            f"{layer.kernel_size!r}, got {layer.padding!r}"
        )


def _between_transposes(scope: Scope, op: Op, x: Value) -> Value:
    return channels_first(scope, scope.emit(op, channels_last(scope, x)))
