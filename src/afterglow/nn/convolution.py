"""Convolutions and poolings of [N, C, spatial…]; the ops are channels last, as an importer's."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from afterglow.graph import Op, Value
from afterglow.nn.basic import within
from afterglow.nn.init import Initialiser
from afterglow.nn.layer import Layer
from afterglow.nn.scope import Scope
from afterglow.ops import convolution as ops
from afterglow.ops import pooling
from afterglow.ops.movement import Transpose
from afterglow.ops.reduction import ReduceMean
from afterglow.support.errors import CompileError, UsageError

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
    given = (size,) * count if isinstance(size, int) else tuple(size)
    if len(given) != count:
        raise UsageError(f"{size} must have {count} entries, one for each spatial axis")
    return given


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
        if self.groups < 1 or self.in_channels % self.groups or self.out_channels % self.groups:
            raise CompileError(
                f"{self.in_channels} and {self.out_channels} channels do not divide "
                f"into {self.groups} groups"
            )
        scope.expect_rank(x, AXES[self.spatial])
        here = x.type.shape[1]
        fix = f"make in_channels {here}, or change the layer before it"
        scope.expect(x, 1, self.in_channels, "channels", fix)


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

    def build(self, scope: Scope, x: Value) -> Value:
        """Between two transposes."""
        op = pooling.MaxPool(
            *_windows(self.kernel_size, self.stride, self.padding),
            _each(self.dilation, 2),
            self.ceil_mode,
        )
        return _pooled(scope, op, x)


@dataclass(frozen=True, repr=False)
class AvgPool2d(Layer):
    """The mean of each window; windows lie next to each other unless `stride` is set."""

    kernel_size: Size
    stride: Size | None = None
    padding: Size = 0
    ceil_mode: bool = False
    count_include_pad: bool = True

    def build(self, scope: Scope, x: Value) -> Value:
        """Between two transposes."""
        windows = _windows(self.kernel_size, self.stride, self.padding)
        op = pooling.AvgPool(*windows, (1, 1), self.ceil_mode, self.count_include_pad)
        return _pooled(scope, op, x)


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


def _pooled(scope: Scope, op: Op, x: Value) -> Value:
    scope.expect_rank(x, AXES[2])
    return channels_first(scope, scope.emit(op, channels_last(scope, x)))
