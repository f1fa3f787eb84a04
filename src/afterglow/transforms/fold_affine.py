"""Fold constant scales and shifts into adjacent weights.

Parameters are combined in float64 and rounded once. Convolutions are channels last, so what runs
along the last axis has one number a channel. Shared weights are not changed.
"""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.convolution import Conv, ConvTranspose
from afterglow.ops.elementwise import Add, Div, Mul, Sub
from afterglow.ops.linear import MatMul
from afterglow.ops.normalization import BatchNorm
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.affine import Affine, affine_of, normalization_by_steps
from afterglow.transforms.matching.values import has_one_use
from afterglow.types import Array
from afterglow.types.dtype import f32
from afterglow.types.later import LARGE, LaterArray, ScaledArray, scaled


@rewrite(BatchNorm, Add, Sub, Mul, Div)
def fold_into_convolution_before(node: Node, b: Builder) -> Value | None:
    """conv(x, w, c) * s + t  ->  conv(x, w * s, c * s + t)."""
    match affine_of(node.result):
        case Affine(
            Value(Node(Conv() | ConvTranspose() as op, [_, Constant() as w, *_]) as conv) as y,
            scale,
            shift,
        ) if has_one_use(y):
            weight = _scaled(w, _for_results(op, w, scale))
            return _with_parameters(b, conv, weight, scale, shift)
    return None


@rewrite(Conv)
def fold_into_convolution_after(node: Node, b: Builder) -> Value | None:
    """conv(x * s + t, w, c)  ->  conv(x, w * s, c + sum(w * t));  with pads only if t = 0."""
    match node:
        case Node(Conv() as op, [Value() as y, Constant() as w, *_]) if has_one_use(y):
            affine = affine_of(y)
            if affine is None or (affine.shifts and any(op.pads)):
                return None
            weight = _scaled(w, _for_operands(op, w, affine.scale))
            shift = _response(op, w, affine.shift)
            return _with_parameters(b, node, weight, np.ones(()), shift, affine.x)
    return None


def _with_parameters(
    b: Builder,
    conv: Node,
    weight: Array | LaterArray | None,
    scale: Array,
    shift: Array,
    x: Value | None = None,
) -> Value | None:
    """The convolution, of x if given, with another weight and its bias scaled and shifted."""
    old_x, old_weight, old_bias, *_ = *conv.operands, None
    assert isinstance(old_weight, Constant)
    if not isinstance(old_bias, Constant | None):
        return None
    start = np.zeros(()) if old_bias is None else old_bias.data.astype(np.float64)
    vector = np.broadcast_to(start * scale + shift, conv.result.type.shape[-1:])
    bias = _rounded(vector, old_weight)
    if weight is None or bias is None:
        return None
    new_bias = None
    if old_bias is not None or np.any(bias != 0):
        new_bias = b.constant(bias, old_bias.name if old_bias else f"{conv.name}.bias")
    return b.emit(conv.op, x or old_x, _owned(b, weight, old_weight), new_bias)


def _for_results(op: Conv | ConvTranspose, weight: Constant, vector: Array) -> Array:
    """One number a result channel, shaped to multiply the weight."""
    if not vector.ndim:
        return vector
    inner = (1,) * (weight.type.rank - 2)
    if isinstance(op, Conv):
        return vector.reshape(-1, *inner, 1)
    by_group = vector.reshape(op.groups, *inner, -1)
    return by_group.repeat(weight.type.shape[0] // op.groups, axis=0)


def _for_operands(op: Conv, weight: Constant, vector: Array) -> Array:
    """One number a channel of x, shaped to multiply the weight."""
    if not vector.ndim:
        return vector
    by_group = vector.reshape(op.groups, *(1,) * (weight.type.rank - 2), -1)
    return by_group.repeat(weight.type.shape[0] // op.groups, axis=0)


def _response(op: Conv, weight: Constant, shift: Array) -> Array:
    """What the convolution gives for an x that is `shift` everywhere."""
    if not np.any(shift):
        return np.zeros(())
    kernel = tuple(range(1, weight.type.rank - 1))
    taps = np.sum(weight.data, axis=kernel, dtype=np.float64, keepdims=True)
    return np.asarray(np.sum(taps * _for_operands(op, weight, shift), axis=(*kernel, -1)))


@rewrite(BatchNorm, Mul, Div)
def fold_into_product_before(node: Node, b: Builder) -> Value | None:
    """(matmul(x, w) + c) * s + t  ->  matmul(x, w * s) + (c * s + t)."""
    affine = affine_of(node.result)
    inner = affine_of(affine.x) if affine is not None and has_one_use(affine.x) else None
    if affine is not None and inner is not None:
        affine = affine.after(inner)
    match affine:
        case Affine(Value(Node(MatMul() as op, [Value() as x, Constant() as w])) as y) if (
            affine.scales and has_one_use(y)
        ):
            columns = affine.scale[..., None] if op.transpose_rhs else affine.scale
            weight, shift = _scaled(w, columns), _rounded(affine.shift, w)
            if weight is None or shift is None:
                return None
            product = b.emit(op, x, _owned(b, weight, w))
            return (
                b.emit(Add(), product, b.constant(shift, f"{b.name}.bias"))
                if affine.shifts
                else product
            )
    return None


@rewrite(MatMul)
def fold_into_product_after(node: Node, b: Builder) -> Value | None:
    """matmul(x * s, w)  ->  matmul(x, w * s),  s along the rows of w."""
    match node:
        case Node(MatMul() as op, [Value() as y, Constant() as w]) if has_one_use(y):
            affine = affine_of(y)
            if affine is None or affine.shifts or (op.transpose_lhs and affine.scale.ndim):
                return None
            rows = affine.scale if op.transpose_rhs else affine.scale[..., None]
            weight = _scaled(w, rows)
            return None if weight is None else b.emit(op, affine.x, _owned(b, weight, w))
    return None


@rewrite(BatchNorm)
def split_normalization(node: Node, b: Builder) -> Value | None:
    """batch_norm(x, …)  ->  x * s + t,  if its parameters are constants.

    They are rounded as if the op computed them, so that the result is what it is elsewhere.
    """
    match node, normalization_by_steps(node):
        case Node(BatchNorm(axis=axis), [Value() as x, Constant() as like, *_]), (scale, shift):
            rank = x.type.rank
            shape = (-1, *(1,) * (rank - 1 - axis % rank))
            factor, term = (
                _rounded(scale.reshape(shape), like),
                _rounded(shift.reshape(shape), like),
            )
            if factor is None or term is None:
                return None
            scaled = b.emit(Mul(), x, b.constant(factor, f"{b.name}.scale"))
            return b.emit(Add(), scaled, b.constant(term, f"{b.name}.shift"))
    return None


def _scaled(weight: Constant, factor: Array) -> Array | LaterArray | None:
    """The weight times a factor; None if others need it as it is, or the product overflows."""
    if np.all(factor == 1):
        return weight.content
    if weight.use_count > 1:
        return None
    if weight.type.dtype is f32 and weight.data.nbytes >= LARGE:
        later = ScaledArray(weight.data, factor)
        if later.is_surely_finite:
            return later
    product = scaled(weight.data, factor)
    return product if np.isfinite(product).all() else None


def _rounded(vector: Array, like: Constant) -> Array | None:
    """The numbers in the element type of `like`; None if one is too large for it."""
    with np.errstate(over="ignore"):
        rounded = vector.astype(like.data.dtype)
    return rounded if np.isfinite(rounded).all() else None


def _owned(b: Builder, data: Array | LaterArray, old: Constant) -> Constant:
    return old if data is old.content else b.constant(data, old.name)


FOLD_AFFINE = RewritePass(
    "fold-affine",
    (
        fold_into_convolution_before,
        fold_into_convolution_after,
        fold_into_product_before,
        fold_into_product_after,
        split_normalization,
    ),
)
