"""Recognise normalizations that exporters write as arithmetic, with their scale and bias."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from afterglow.graph import Builder, Node, Value
from afterglow.ops.elementwise import Add, Div, Mul, Sub
from afterglow.ops.functions import Sqrt
from afterglow.ops.normalization import GroupNorm, LayerNorm, RMSNorm
from afterglow.ops.power import Pow
from afterglow.ops.reduction import ReduceMean, ReduceSum
from afterglow.passes import RewritePass, rewrite
from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.matching.norm_parameters import (
    absorb_bias,
    absorb_scale,
    normalise_narrow,
)
from afterglow.transforms.matching.patterns import (
    emit_as,
    ingredients,
    is_near,
    maker,
    scalar_of,
    serves_only,
    uncast,
)
from afterglow.transforms.matching.polynomials import (
    Polynomial,
    is_polynomial,
    multiple_of,
    polynomial,
)
from afterglow.transforms.matching.values import has_one_use
from afterglow.types import dtype as d
from afterglow.types.extent import is_ranged

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


@rewrite(Div, Mul)
def gather_mean(node: Node, b: Builder) -> Value | None:
    """reduce_sum(x) / n  ->  reduce_mean(x)  for a sum of n elements."""
    for value in node.given:
        match value:
            case Value(Node(ReduceSum(axes, keepdims), [Value() as x])) if has_one_use(value):
                count = math.prod(x.type.shape[axis] for axis in axes)
                factor = multiple_of(node.result, value)
                exact = factor is not None and not is_ranged(count)
                mean = exact and is_near((factor or 0.0) * count, 1.0, d.f64)
                if mean and x.type.dtype.is_float and value.type == node.result.type:
                    return b.emit(ReduceMean(axes, keepdims), x)
    return None


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
        known = found.first_axis is not None or found.all_but_channels
        if whole and known and _fits(node, found.x):
            return _emit(b, found, node)
    return None


def _emit(b: Builder, found: _Statistics, node: Node) -> Value:
    x = emit_as(b, uncast(found.x), node.result.type.dtype)
    if found.first_axis is not None:
        return b.emit(LayerNorm(found.first_axis, found.epsilon), x)
    channels, dtype = x.type.shape[-1], x.type.dtype.numpy
    scale = b.constant(np.ones(channels, dtype), f"{b.name}.scale")
    bias = b.constant(np.zeros(channels, dtype), f"{b.name}.bias")
    return b.emit(GroupNorm(channels, found.epsilon, x.type.rank - 1), x, scale, bias)


def _fits(node: Node, x: Value, *parameters: Value) -> bool:
    same = x.type.shape == node.result.type.shape
    return same and serves_only(node, [uncast(x), *parameters])


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


RECOGNISE_NORMS = RewritePass(
    "recognise-norms",
    (
        gather_mean,
        gather_layer_norm,
        gather_rms_norm,
        gather_affine_layer_norm,
        absorb_scale,
        absorb_bias,
        normalise_narrow,
    ),
)
