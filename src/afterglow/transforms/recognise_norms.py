"""Normalizations that exporters spell out become one op again, their scale and bias with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Div, Mul, Pow, Sub
from afterglow.ops.functions import Sqrt
from afterglow.ops.movement import Reshape
from afterglow.ops.normalization import GroupNorm, LayerNorm, RMSNorm
from afterglow.ops.reduction import ReduceMean
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching import has_one_use
from afterglow.transforms.patterns import (
    emit_as,
    ingredients,
    maker,
    orders,
    scalar_of,
    serves_only,
    uncast,
)
from afterglow.transforms.polynomials import Polynomial, is_polynomial, polynomial
from afterglow.types import dtype as d

NEAR = 4
"""How many nodes in a row may lie between a formula and the root inside it."""
_SQUARE: Polynomial = {(2,): 1.0}
_SQUARED_DIFFERENCE: Polynomial = {(2, 0): 1.0, (1, 1): -2.0, (0, 2): 1.0}


@dataclass(frozen=True)
class _Statistics:
    """`spread` is the mean of x² plus epsilon, or the variance of x if `mean` is given."""

    x: Value
    spread: Value
    epsilon: float
    axes: tuple[int, ...]
    mean: Value | None = None

    @property
    def first_axis(self) -> int | None:
        """The axis from which on all are normalised; None if others are."""
        rank = self.x.type.rank
        trailing = tuple(range(rank - len(self.axes), rank))
        return trailing[0] if self.axes and self.axes == trailing else None

    @property
    def all_but_channels(self) -> bool:
        """Whether all axes between samples and channels are normalised, as for instances."""
        return self.axes == tuple(range(1, self.x.type.rank - 1)) and len(self.axes) > 0


def _spreads(value: Value) -> list[Value]:
    """What a root is taken of, near the end of a formula."""
    roots = (maker(found, Sqrt, Pow) for found in ingredients(value, NEAR))
    return [uncast(node.given[0]) for node in roots if node is not None and _is_root(node)]


def _is_root(node: Node) -> bool:
    return isinstance(node.op, Sqrt) or scalar_of(node.given[1]) in (0.5, -0.5)


def _means(value: Value) -> list[Value]:
    return [found for found in ingredients(value) if _averaged(found) is not None]


def _averaged(value: Value) -> tuple[Value, tuple[int, ...]] | None:
    """What a value is the mean of, with the rank kept, and along which axes."""
    node = maker(value, ReduceMean)
    if node is None or not isinstance(node.op, ReduceMean) or not node.op.keepdims:
        return None
    x = node.given[0]
    return x, tuple(sorted(axis % x.type.rank for axis in node.op.axes))


def _squares(spread: Value) -> Iterator[_Statistics]:
    """Each way to read a value as mean(x²) + epsilon."""
    for square in _means(spread):
        found = polynomial(spread, square) or {}
        terms, axes = _averaged(square) or (spread, ())
        for x in ingredients(terms) if _is_shifted(found, (1.0,)) else ():
            if is_polynomial(terms, [x], _SQUARE):
                yield _Statistics(x, spread, found.get((0.0,), 0.0), axes)


def _is_shifted(found: Polynomial, *terms: tuple[float, ...]) -> bool:
    """Whether there are these terms, the first with the coefficient 1, and at most a number."""
    zero = (0.0,) * len(terms[0])
    return found.get(terms[0]) == 1.0 and {*terms} <= found.keys() <= {*terms, zero}


def _variances(spread: Value) -> Iterator[_Statistics]:
    """Each way to read a value as mean((x - mean(x))²) + epsilon, or mean(x²) - mean(x)² + …."""
    means = _means(spread)
    for square in means:
        found = polynomial(spread, square) or {}
        terms, axes = _averaged(square) or (spread, ())
        for mean in _means(terms) if _is_shifted(found, (1.0,)) else ():
            x = _centre(mean, axes)
            if x is not None and is_polynomial(terms, [x, mean], _SQUARED_DIFFERENCE):
                yield _Statistics(x, spread, found.get((0.0,), 0.0), axes, mean)
        for mean in means:
            yield from _moment_difference(spread, square, mean)


def _moment_difference(spread: Value, square: Value, mean: Value) -> Iterator[_Statistics]:
    """The variance written as mean(x²) - mean(x)²."""
    found = polynomial(spread, square, mean) or {}
    if not _is_shifted(found, (1.0, 0.0), (0.0, 2.0)) or found[(0.0, 2.0)] != -1:
        return
    terms, axes = _averaged(square) or (spread, ())
    x = _centre(mean, axes)
    if x is not None and is_polynomial(terms, [x], _SQUARE):
        yield _Statistics(x, spread, found.get((0.0, 0.0), 0.0), axes, mean)


def _centre(mean: Value, axes: tuple[int, ...]) -> Value | None:
    """What a value is the mean of, along these axes."""
    averaged = _averaged(mean)
    return averaged[0] if averaged is not None and averaged[1] == axes else None


def _found(node: Node, read: Callable[[Value], Iterator[_Statistics]]) -> Iterator[_Statistics]:
    return (found for spread in _spreads(node.result) for found in read(spread))


@rewrite(Div, Mul, Sub)
def gather_layer_norm(node: Node, b: Builder) -> Value | None:
    """(x - mean(x)) / sqrt(variance(x) + epsilon)  ->  layer_norm(x), or group_norm(x).

    Groups of one channel each, if all axes but those of samples and channels are normalised.
    """
    for found in _found(node, _variances):
        if found.mean is None:
            continue
        atoms = [found.x, found.mean, found.spread]
        whole = is_polynomial(node.result, atoms, {(1, 0, -0.5): 1.0, (0, 1, -0.5): -1.0})
        if not whole or not _fits(node, found.x):
            continue
        x = emit_as(b, uncast(found.x), node.result.type.dtype)
        if found.first_axis is not None:
            return b.emit(LayerNorm(found.first_axis, found.epsilon), x)
        if found.all_but_channels:
            return _emit_instance_norm(b, x, found.epsilon)
    return None


def _fits(node: Node, x: Value, *parameters: Value) -> bool:
    same = x.type.shape == node.result.type.shape
    return same and serves_only(node, [uncast(x), *parameters])


def _emit_instance_norm(b: Builder, x: Value, epsilon: float) -> Value:
    channels, dtype = x.type.shape[-1], x.type.dtype.numpy
    scale = b.constant(np.ones(channels, dtype), f"{b.name}.scale")
    bias = b.constant(np.zeros(channels, dtype), f"{b.name}.bias")
    return b.emit(GroupNorm(channels, epsilon, x.type.rank - 1), x, scale, bias)


@rewrite(Div, Mul)
def gather_rms_norm(node: Node, b: Builder) -> Value | None:
    """x / sqrt(mean(x²) + epsilon)  ->  rms_norm(x)."""
    for found in _found(node, _squares):
        whole = is_polynomial(node.result, [found.x, found.spread], {(1, -0.5): 1.0})
        if whole and found.first_axis is not None and _fits(node, found.x):
            x = emit_as(b, uncast(found.x), node.result.type.dtype)
            return b.emit(RMSNorm(found.first_axis, found.epsilon), x)
    return None


@rewrite(Add)
def gather_affine_layer_norm(node: Node, b: Builder) -> Value | None:
    """x r + (c - mean(x) r), r = w / sqrt(variance(x) + epsilon)  ->  layer_norm(x, w, c)."""
    for found in _found(node, _variances):
        axis = found.first_axis
        if axis is None or found.mean is None:
            continue
        shape = found.x.type.shape[axis:]
        parameters = [v for v in ingredients(node.result) if v.type.shape == shape]
        for scale, bias in product(parameters, parameters):
            atoms = [found.x, found.mean, found.spread, scale, bias]
            if is_polynomial(node.result, atoms, _AFFINE) and _fits(node, found.x, scale, bias):
                dtype = node.result.type.dtype
                operands = [emit_as(b, uncast(v), dtype) for v in (found.x, scale, bias)]
                return b.emit(LayerNorm(axis, found.epsilon), *operands)
    return None


_AFFINE: Polynomial = {(1, 0, -0.5, 1, 0): 1.0, (0, 1, -0.5, 1, 0): -1.0, (0, 0, 0, 0, 1): 1.0}


@rewrite(Mul)
def absorb_scale(node: Node, b: Builder) -> Value | None:
    """layer_norm(x) * w  ->  layer_norm(x, w);  rms_norm(x) * w  ->  rms_norm(x, w)."""
    for normed, scale in orders(node):
        match normed:
            case Value(Node(LayerNorm(axis) | RMSNorm(axis) as op, [Value() as x])):
                if _is_parameter(scale, axis, normed, node):
                    return b.emit(op, x, _emit_parameter(b, scale, axis, normed))
    return None


@rewrite(Add)
def absorb_bias(node: Node, b: Builder) -> Value | None:
    """layer_norm(x, w) + c  ->  layer_norm(x, w, c)."""
    for normed, bias in orders(node):
        match normed:
            case Value(Node(LayerNorm(axis) as op, [Value() as x, *scale])) if len(scale) < 2:
                if _is_parameter(bias, axis, normed, node):
                    parameter = _emit_parameter(b, bias, axis, normed)
                    return b.emit(op, x, scale[0] if scale else None, parameter)
    return None


def _is_parameter(value: Value, axis: int, normed: Value, node: Node) -> bool:
    """Whether it has the shape of the normalised axes; a constant may have unit axes before."""
    shape = normed.type.shape[axis % normed.type.rank :]
    own = value.type.shape
    extra = len(own) - len(shape)
    fits = own == shape or (
        isinstance(value, Constant) and extra > 0 and own == (1,) * extra + shape
    )
    return fits and node.result.type == normed.type and has_one_use(normed)


def _emit_parameter(b: Builder, value: Value, axis: int, normed: Value) -> Value:
    shape = normed.type.shape[axis % normed.type.rank :]
    return value if value.type.shape == shape else b.emit(Reshape(shape), value)


@rewrite(Cast)
def normalise_narrow(node: Node, b: Builder) -> Value | None:
    """cast(layer_norm(cast(x, f32)), f16)  ->  layer_norm(x): it computes in f32 anyway."""
    dtype = node.result.type.dtype
    match node.operands:
        case [Value(Node(LayerNorm() | RMSNorm() | GroupNorm() as op, wide)) as normed]:
            narrow = [None if value is None else uncast(value) for value in wide]
            known = all(value is None or value.type.dtype is dtype for value in narrow)
            exact = known and dtype.is_narrow_float and normed.type.dtype in (d.f32, d.f64)
            return b.emit(op, *narrow) if exact and has_one_use(normed) else None
    return None


RECOGNISE_NORMS = RewritePass(
    "recognise-norms",
    (
        gather_layer_norm,
        gather_rms_norm,
        gather_affine_layer_norm,
        absorb_scale,
        absorb_bias,
        normalise_narrow,
    ),
)
