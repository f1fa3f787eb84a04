"""The com.microsoft domain: attention of groups of queries, with a cache of keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.contrib.fused import MICROSOFT
from afterglow.frontends.onnx.importers.attention import Rotation, merge_heads, rotate, split_heads
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops import attention_scores as att
from afterglow.ops.append_rows import AppendRows
from afterglow.ops.attention import Attention
from afterglow.ops.elementwise import (
    Add,
    And,
    Div,
    Less,
    LessEqual,
    Max,
    Mul,
    Sub,
    Where,
    scalar,
)
from afterglow.ops.functions import Tanh
from afterglow.ops.indexing import Iota
from afterglow.ops.lengths import CheckLengths
from afterglow.ops.movement import Concat, Expand, Pad, Reshape, slice_axis
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import dtype as d
from afterglow.types.extent import larger_extent


@dataclass(frozen=True)
class _Lengths:
    """How many keys there are: `queries` new ones behind `past`, in a cache of `cache` places.

    The past is a tensor [batch], or None at the beginning.
    """

    queries: int
    cache: int
    past: Value | None


@onnx_op("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(n: NodeContext) -> Sequence[Value | None]:
    """Inputs: q, k, v, past k and v, last key of each sequence, length, rotary tables, and more.

    q may have k and v in it. The others are positions, what to add to scores, and sinks.
    """
    _refuse(n)
    q, k, v = _split_inputs(n)
    lengths = _lengths(n, q)
    if n.integer("do_rotary", 0):
        places = _places(n, q, lengths)
        width = 2 * n.extents(n[7], 2)[1]
        rotation = Rotation(width, bool(n.integer("rotary_interleaved", 0)))
        q, k = (rotate(n, x, (n[7], n[8]), places, rotation) for x in (q, k))
    keys, values = (_joined(n, n.get(3 + i), x, lengths) for i, x in enumerate((k, v)))
    return merge_heads(n, _attend(n, q, keys, values, lengths)), keys, values


def _refuse(n: NodeContext) -> None:
    if n.wants(3) or n.integer("qk_output", 0):
        raise n.fail("the output of scores is not supported")
    if n.get(12) is not None or n.get(13) is not None:
        raise n.fail("a quantized cache of keys and values is not supported")


def _split_inputs(n: NodeContext) -> tuple[Value, Value, Value]:
    """q, k and v, each [batch, heads, positions, width]."""
    heads, shared = n.integer("num_heads"), n.integer("kv_num_heads")
    q, k, v = n[0], n.get(1), n.get(2)
    if k is not None and v is not None:
        return split_heads(n, q, heads), split_heads(n, k, shared), split_heads(n, v, shared)
    packed = split_heads(n, q, heads + 2 * shared)
    starts = ((0, heads), (heads, shared), (heads + shared, shared))
    first, second, third = (
        n.emit(slice_axis(packed.type, 1, start, count), packed) for start, count in starts
    )
    return first, second, third


def _lengths(n: NodeContext, q: Value) -> _Lengths:
    """At the beginning there is no past; later on, the last key of each batch tells it."""
    batch, queries = q.type.shape[0], q.type.shape[2]
    total = n.known_extent(6)
    past = n.get(3)
    if total < queries:
        raise ModelError(f"there are {queries} new keys, but {total} in all")
    cache = larger_extent(total, 0 if past is None else past.type.shape[2])
    if total == queries:
        return _Lengths(queries, cache, None)
    last = n.emit(CheckLengths(cache - 1), as_dtype(n, n[5], d.i64))
    last = n.emit(Reshape((batch,)), last)
    return _Lengths(queries, cache, n.emit(Add(), last, _whole(n, 1 - queries)))


def _places(n: NodeContext, q: Value, lengths: _Lengths) -> Value:
    """The position of each query: [batch, queries]."""
    batch, queries = q.type.shape[0], lengths.queries
    given = n.get(9)
    if given is not None:
        return given
    counted = n.emit(Iota((batch, queries), 1, d.i64))
    if lengths.past is None:
        return counted
    places = n.emit(Add(), counted, n.emit(Reshape((batch, 1)), lengths.past))
    return n.emit(Max(), places, _whole(n, 0))


def _joined(n: NodeContext, past: Value | None, new: Value, lengths: _Lengths) -> Value:
    """The cache with the new keys or values behind those of the past, then zeros."""
    batch, heads, queries, width = new.type.shape
    if lengths.past is None:
        rest = lengths.cache - queries
        return n.emit(Pad((0, 0, 0, 0), (0, 0, rest, 0)), new) if rest else new
    if past is None:
        past = n.constant(np.zeros((batch, heads, 0, width), new.type.dtype.numpy))
    return n.emit(AppendRows(lengths.cache), past, new, lengths.past)


def _attend(n: NodeContext, q: Value, k: Value, v: Value, lengths: _Lengths) -> Value:
    scale = n.number("scale", 0.0) or 1 / math.sqrt(q.type.shape[3])
    window, sinks = n.integer("local_window_size", -1), _sinks(n, q)
    bias, cap = n.get(10), n.number("softcap", 0.0)
    plain = lengths.past is None and lengths.queries == lengths.cache
    if plain and window < 0 and bias is None and not cap and sinks is None:
        return n.emit(Attention(scale, causal=True), q, k, v)
    mask = _mask(n, q.type.shape[0], lengths, window)
    if bias is not None:
        bias = _widened_bias(n, bias, lengths.cache)
        mask = n.emit(Where(), mask, bias, scalar(n.builder, -np.inf, bias))
    if not cap and sinks is None:
        return n.emit(Attention(scale), q, k, v, mask)
    scores = att.emit_scores(n.builder, q, k, scale)
    if cap:
        limit = scalar(n.builder, cap, scores)
        scores = n.emit(Mul(), n.emit(Tanh(), n.emit(Div(), scores, limit)), limit)
    scores = att.emit_masked(n.builder, scores, mask)
    if sinks is None:
        return att.emit_mixed(n.builder, att.emit_weights(n.builder, scores), v)
    with_sinks = n.emit(Concat(3), scores, sinks)
    weights = att.emit_weights(n.builder, with_sinks)
    return att.emit_mixed(
        n.builder, n.emit(slice_axis(weights.type, 3, 0, lengths.cache), weights), v
    )


def _widened_bias(n: NodeContext, bias: Value, keys: int) -> Value:
    """What is added to scores, for keys that it may not have: their places are masked anyway."""
    missing = keys - bias.type.shape[3]
    return n.emit(Pad((0, 0, 0, 0), (0, 0, 0, missing)), bias) if missing > 0 else bias


def _mask(n: NodeContext, batch: int, lengths: _Lengths, window: int) -> Value:
    """Which keys a query sees: [batch or 1, 1, queries, keys]."""
    key = n.emit(Iota((1, 1, 1, lengths.cache), 3, d.i64))
    query = n.emit(Iota((1, 1, lengths.queries, 1), 2, d.i64))
    if lengths.past is not None:
        query = n.emit(Add(), query, n.emit(Reshape((batch, 1, 1, 1)), lengths.past))
    limits = [n.emit(LessEqual(), key, query)]
    if window > 0:
        limits.append(n.emit(Less(), n.emit(Sub(), query, _whole(n, window)), key))
    return reduce(lambda x, y: n.emit(And(), x, y), limits)


def _sinks(n: NodeContext, q: Value) -> Value | None:
    """Scores that take part in the softmax and give nothing: one a head, or zeros."""
    batch, heads, queries, _ = q.type.shape
    given = n.get(11)
    if given is None and n.integer("smooth_softmax", 0) != 1:
        return None
    sinks = scalar(n.builder, 0, q) if given is None else n.emit(Reshape((1, heads, 1, 1)), given)
    return n.emit(Expand((batch, heads, queries, 1)), sinks)


def _whole(n: NodeContext, number: int) -> Value:
    return n.integers_of((number,), ())
