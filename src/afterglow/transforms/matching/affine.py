"""Patterns of nodes that scale and shift by constants along the last axis."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Constant, Node, Value
from afterglow.ops.elementwise import Add, Div, Mul, Sub
from afterglow.ops.normalization import BatchNorm
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array


@dataclass(frozen=True)
class Affine:
    """x * scale + shift, in float64: each one number, or one for each index of the last axis."""

    x: Value
    scale: Array
    shift: Array

    @property
    def scales(self) -> bool:
        """Whether the scale differs from 1."""
        return bool(np.any(self.scale != 1))

    @property
    def shifts(self) -> bool:
        """Whether the shift differs from 0."""
        return bool(np.any(self.shift != 0))

    def after(self, inner: Affine) -> Affine:
        """The composition: this one applied to the result of `inner`."""
        return Affine(inner.x, inner.scale * self.scale, inner.shift * self.scale + self.shift)


def affine_of(value: Value | None) -> Affine | None:
    """The value as a scale and a shift of one operand of its own type, if floats were so made."""
    if value is None or value.producer is None or not value.type.dtype.is_float:
        return None
    node = value.producer
    match node:
        case Node(BatchNorm(axis=axis), [Value() as x, *_]) if axis in (-1, x.type.rank - 1):
            parameters = normalization_of(node)
            return None if parameters is None else Affine(x, *parameters)
        case Node(Add() | Sub() | Mul() | Div(), [Value() as x, Constant() as c]):
            vector = _along_last_axis(c) if x.type == value.type else None
            return None if vector is None else _by_constant(node, x, vector)
    return None


def normalization_of(node: Node) -> tuple[Array, Array] | None:
    """Scale and shift, in float64, of a batch normalization whose parameters are constants."""
    match node:
        case Node(
            BatchNorm(epsilon),
            [_, Constant(scale), Constant(bias), Constant(mean), Constant(variance)],
        ):
            factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
            return factor, bias.astype(np.float64) - mean.astype(np.float64) * factor
    return None


def normalization_by_steps(node: Node) -> tuple[Array, Array] | None:
    """Scale and shift of the same, each step rounded to the element type of x if it has 32 bits."""
    match node:
        case Node(
            BatchNorm(epsilon),
            [_, Constant(scale), Constant(bias), Constant(mean), Constant(variance)],
        ) if {part.dtype for part in (scale, bias, mean, variance)} == {np.dtype(np.float32)}:
            with np.errstate(all="ignore"):
                factor = np.float32(1) / np.sqrt(variance + np.float32(epsilon)) * scale
                return factor, bias - mean * factor
    return normalization_of(node)


def _along_last_axis(c: Constant) -> Array | None:
    if c.type.size != 1 and c.type.shape[-1] != c.type.size:
        return None
    return c.data.reshape(() if c.type.size == 1 else -1).astype(np.float64)


def _by_constant(node: Node, x: Value, c: Array) -> Affine | None:
    zero, one = np.zeros(()), np.ones(())
    match node.op:
        case Add():
            return Affine(x, one, c)
        case Sub():
            return Affine(x, one, -c)
        case Mul():
            return Affine(x, c, zero)
    return Affine(x, 1 / c, zero) if np.all(c != 0) else None
