"""Scales and biases after a normalization, and conversions around it, become part of it."""

from __future__ import annotations

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.movement import Reshape
from afterglow.ops.normalization import GroupNorm, LayerNorm, RMSNorm
from afterglow.passes import rewrite
from afterglow.transforms.matching.patterns import orders, uncast
from afterglow.transforms.matching.values import has_one_use
from afterglow.types import dtype as d


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
