"""The com.microsoft domain: attention and rotary embedding."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.linear import multiply
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.contrib.fused import MICROSOFT, plus
from afterglow.frontends.onnx.importers.attention import merge_heads, rotate_any, split_heads
from afterglow.frontends.onnx.importers.linear import above_zero_point
from afterglow.frontends.onnx.importers.quantization import rescale
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.attention import Attention
from afterglow.ops.elementwise import Add, And, Less, LessEqual, Where, scalar
from afterglow.ops.indexing import Iota
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Reshape, slice_axis
from afterglow.support.errors import ModelError
from afterglow.types import dtype as d


@onnx_op("Attention", domain=MICROSOFT)
def packed_attention(n: NodeContext) -> Sequence[Value | None]:
    """Inputs: x, weights and bias of the q, k and v projections, a mask, past keys and values."""
    if n.integer("do_rotary", 0) or n.integer("past_present_share_buffer", 0):
        raise n.fail("rotary positions and shared buffers are not supported")
    projected = plus(n, n.emit(MatMul(), n[0], n[1]), n.get(2))
    return _attend_projected(n, projected, n.get(3), n.get(4), n.get(5))


@onnx_op("QAttention", domain=MICROSOFT)
def quantized_attention(n: NodeContext) -> Sequence[Value | None]:
    """Inputs: x, weights, bias, scales of x and weights, a mask, zero points, past k and v."""
    if n.integer("do_rotary", 0) or n.integer("past_present_share_buffer", 0):
        raise n.fail("rotary positions and shared buffers are not supported")
    lhs = above_zero_point(n, n[0], n.get(6), axis=-2)
    rhs = above_zero_point(n, n[1], n.get(7), axis=-1)
    projected = plus(n, rescale(n, multiply(n, lhs, rhs), (n[3], n[4])), n[2])
    return _attend_projected(n, projected, n.get(5), n.get(8), None)


def _attend_projected(
    n: NodeContext, projected: Value, mask: Value | None, past: Value | None, bias: Value | None
) -> Sequence[Value | None]:
    """The result and, if wanted, keys and values, given all three projections side by side."""
    n.extents(n[0], 3)
    heads, (_, _, width) = n.integer("num_heads"), n.extents(projected, 3)
    if past is not None:
        n.extents(past, 5)
    sizes = n.integers("qkv_hidden_sizes", (width // 3,) * 3)
    q, k, v = (split_heads(n, part, heads) for part in _split(n, projected, sizes))
    if past is not None:
        k, v = (_after(n, past, i, part) for i, part in enumerate((k, v)))
    added = _plus_mask(n, _padding_mask(n, mask, k), bias)
    y = n.emit(Attention(_scale(n, q), bool(n.integer("unidirectional", 0))), q, k, v, added)
    return merge_heads(n, y), _stacked(n, k, v) if n.wants(1) else None


@onnx_op("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(n: NodeContext) -> Sequence[Value | None]:
    """Inputs: q, k, v, their biases, a padding mask, an attention bias, past keys and values."""
    if n[0].type.rank != 3 or n.get(1) is None or n.get(2) is None:
        raise n.fail("packed queries, keys and values are not supported")
    if n.get(8) is not None or n.get(9) is not None or n.wants(3):
        raise n.fail("shared buffers and the output of scores are not supported")
    heads, bias = n.integer("num_heads"), n.get(3)
    parts = [n[0], n[1], n[2]]
    if bias is not None:
        (_, _, width), _ = n.extents(n[0], 3), n.extents(bias, 1)
        biases = _split(n, bias, (width, width, bias.type.size - 2 * width))
        parts = [
            p if p.type.rank == 4 else plus(n, p, b) for p, b in zip(parts, biases, strict=True)
        ]
    q, k, v = (p if p.type.rank == 4 else split_heads(n, p, heads) for p in parts)
    past_key, past_value = n.get(6), n.get(7)
    if past_key is not None and past_value is not None:
        k, v = n.emit(Concat(2), past_key, k), n.emit(Concat(2), past_value, v)
    mask = _plus_mask(n, _padding_mask(n, n.get(4), k), n.get(5))
    y = n.emit(Attention(_scale(n, q), bool(n.integer("unidirectional", 0))), q, k, v, mask)
    return merge_heads(n, y), k, v


def _scale(n: NodeContext, q: Value) -> float:
    return n.number("scale", 0.0) or 1 / math.sqrt(q.type.shape[3])


def _split(n: NodeContext, x: Value, sizes: Sequence[int]) -> list[Value]:
    """Pieces of these sizes along the last axis."""
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    axis = x.type.rank - 1
    return [
        n.emit(slice_axis(x.type, axis, start, size), x)
        for start, size in zip(starts, sizes, strict=True)
    ]


def _after(n: NodeContext, past: Value, index: int, new: Value) -> Value:
    """Past keys (0) or values (1), then the new ones."""
    old = n.emit(slice_axis(past.type, 0, index, 1), past)
    return n.emit(Concat(2), n.emit(Reshape(old.type.shape[1:]), old), new)


def _stacked(n: NodeContext, k: Value, v: Value) -> Value:
    return n.emit(Concat(0), *(n.emit(Reshape((1, *x.type.shape)), x) for x in (k, v)))


def _plus_mask(n: NodeContext, mask: Value | None, bias: Value | None) -> Value | None:
    return bias if mask is None else plus(n, mask, bias)


def _padding_mask(n: NodeContext, mask: Value | None, k: Value) -> Value | None:
    """What to add to the scores: a very low number where there is only padding."""
    if mask is None:
        return None
    seen = _seen(n, mask, k)
    zero = scalar(n.builder, 0, k)
    return n.emit(Where(), seen, zero, scalar(n.builder, n.number("mask_filter_value", -1e4), k))


def _seen(n: NodeContext, mask: Value, k: Value) -> Value:
    """Booleans that broadcast to [batch, heads, queries, keys], by the form of the mask."""
    batch, keys = k.type.shape[0], k.type.shape[2]
    shape = mask.type.shape
    if len(shape) == 2 and shape == (batch, keys):
        return as_dtype(n, n.emit(Reshape((batch, 1, 1, keys)), mask), d.boolean)
    if len(shape) == 3:
        return as_dtype(n, n.emit(Reshape((batch, 1, *shape[1:])), mask), d.boolean)
    if shape not in ((batch,), (2 * batch,)):
        raise n.fail(f"a mask of shape {shape} is not supported")
    place = n.emit(Iota((1, 1, 1, keys), 3, mask.type.dtype))
    ends = n.emit(Reshape((batch, 1, 1, 1)), n.emit(slice_axis(mask.type, 0, 0, batch), mask))
    seen = n.emit(Less(), place, ends)
    if shape == (batch,):
        return seen
    starts = n.emit(slice_axis(mask.type, 0, batch, batch), mask)
    starts = n.emit(Reshape((batch, 1, 1, 1)), starts)
    return n.emit(And(), seen, n.emit(LessEqual(), starts, place))


@onnx_op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(n: NodeContext) -> Value:
    """Inputs: x, position ids (or the first one), cosine table, sine table."""
    if n.number("scale", 1.0) != 1 or n.integer("is_packed_batching", 0):
        raise n.fail("scaled or packed rotary embeddings are not supported")
    x, positions = n[0], n[1]
    if positions.type.rank == 1 and x.type.rank > 1:
        count = x.type.shape[-2]
        places = n.emit(Iota((1, count), 1, d.i64))
        positions = n.emit(Add(), as_dtype(n, positions, d.i64), places)
    width = 2 * n.extents(n[2], 2)[1]
    if not width or x.type.rank not in (3, 4):
        raise ModelError(f"{x.type} cannot be rotated by cosines {n[2].type}")
    heads = n.integer("num_heads", 0) or x.type.shape[-1] // width
    return rotate_any(n, x, (n[2], n[3]), positions, heads)
