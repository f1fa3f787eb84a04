"""Normalizations."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from afterglow.graph import Value
from afterglow.nn import init
from afterglow.nn.checks import check_counts, check_numbers, check_sizes
from afterglow.nn.layer import Layer
from afterglow.nn.scope import Scope
from afterglow.ops import normalization as ops
from afterglow.ops.fill import Fill
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32

Shape: TypeAlias = "int | tuple[int, ...]"
"""The extents of the last axes; a number is that of the last one."""


@dataclass(frozen=True, repr=False)
class BatchNorm(Layer):
    """Each channel (axis 1) to mean 0 and variance 1, scaled and shifted.

    Training uses the statistics of the batch, and keeps running ones for inference, in which a
    batch has the share `momentum`.
    """

    num_features: int
    eps: float = 1e-5
    momentum: float = 0.1
    affine: bool = True

    def __post_init__(self) -> None:
        check_counts(self, "num_features")
        check_numbers(self, "eps")
        check_numbers(self, "momentum", most=1)

    def build(self, scope: Scope, x: Value) -> Value:
        """By the running statistics: `training/mode.py` puts those of the batch in their place."""
        _expect_channels(scope, x, self.num_features)
        scale, bias = _scale_and_bias(scope, self.num_features, self.affine)
        mean = scope.parameter("running_mean", (self.num_features,), init.zeros)
        variance = scope.parameter("running_var", (self.num_features,), init.ones)
        op = ops.BatchNorm(self.eps, 1, self.momentum)
        return scope.emit(op, x, scale, bias, mean, variance)


@dataclass(frozen=True, repr=False)
class GroupNorm(Layer):
    """Groups of channels (axis 1) of each sample to mean 0 and variance 1, scaled and shifted."""

    num_groups: int
    num_channels: int
    eps: float = 1e-5
    affine: bool = True

    def __post_init__(self) -> None:
        check_counts(self, "num_groups", "num_channels")
        check_numbers(self, "eps")

    def build(self, scope: Scope, x: Value) -> Value:
        """One op."""
        _expect_channels(scope, x, self.num_channels)
        scale, bias = _scale_and_bias(scope, self.num_channels, self.affine)
        return scope.emit(ops.GroupNorm(self.num_groups, self.eps, 1), x, scale, bias)


@dataclass(frozen=True, repr=False)
class LayerNorm(Layer):
    """What lies along the last axes to mean 0 and variance 1, scaled and shifted."""

    normalized_shape: Shape
    eps: float = 1e-5
    elementwise_affine: bool = True
    bias: bool = True

    def __post_init__(self) -> None:
        check_sizes(self, None, "normalized_shape")
        check_numbers(self, "eps")

    def build(self, scope: Scope, x: Value) -> Value:
        """One op."""
        shape = _expect_last(scope, x, self.normalized_shape)
        scale = scope.parameter("weight", shape, init.ones) if self.elementwise_affine else None
        biased = self.elementwise_affine and self.bias
        bias = scope.parameter("bias", shape, init.zeros) if biased else None
        return scope.emit(ops.LayerNorm(-len(shape), self.eps), x, scale, bias)


@dataclass(frozen=True, repr=False)
class RMSNorm(Layer):
    """What lies along the last axes divided by the root of its mean square, scaled."""

    normalized_shape: Shape
    eps: float = float(np.finfo(np.float32).eps)
    elementwise_affine: bool = True

    def __post_init__(self) -> None:
        check_sizes(self, None, "normalized_shape")
        check_numbers(self, "eps")

    def build(self, scope: Scope, x: Value) -> Value:
        """One op."""
        shape = _expect_last(scope, x, self.normalized_shape)
        scale = scope.parameter("weight", shape, init.ones) if self.elementwise_affine else None
        return scope.emit(ops.RMSNorm(-len(shape), self.eps), x, scale)


def _expect_channels(scope: Scope, x: Value, count: int) -> None:
    scope.expect(x, 1, count, "channels", "axis 1 has the channels: make the two numbers equal")


def _expect_last(scope: Scope, x: Value, shape: Shape) -> tuple[int, ...]:
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    for axis, extent in enumerate(extents, -len(extents)):
        scope.expect(x, axis, extent, "features", "make the normalized shape that of the last axes")
    return extents


def _scale_and_bias(scope: Scope, count: int, affine: bool) -> tuple[Value, Value]:
    """Parameters, or what changes nothing and does not train."""
    if affine:
        return (
            scope.parameter("weight", (count,), init.ones),
            scope.parameter("bias", (count,), init.zeros),
        )
    return scope.emit(Fill((count,), 1.0, f32)), scope.emit(Fill((count,), 0.0, f32))
