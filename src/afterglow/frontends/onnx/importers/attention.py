"""ONNX's attention and rotary embedding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops import attention_scores as att
from afterglow.ops.attention import Attention
from afterglow.ops.elementwise import Add, And, Div, Less, LessEqual, Mul, Sub, Where, scalar
from afterglow.ops.functions import Tanh
from afterglow.ops.indexing import Gather, Iota
from afterglow.ops.movement import Concat, Pad, Reshape, Transpose, slice_axis
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import dtype as d

HEADS_FIRST = (0, 2, 1, 3)
"""[batch, positions, heads, width] to [batch, heads, positions, width], and back."""


def split_heads(n: NodeContext, x: Value, heads: int) -> Value:
    """[batch, positions, heads * width] to [batch, heads, positions, width]."""
    batch, positions, width = n.extents(x, 3)
    if heads < 1 or width % heads:
        raise ModelError(f"{x.name!r} cannot be split into {heads} heads: {x.type}")
    apart = n.emit(Reshape((batch, positions, heads, width // heads)), x)
    return n.emit(Transpose(HEADS_FIRST), apart)


def merge_heads(n: NodeContext, x: Value) -> Value:
    """[batch, heads, positions, width] to [batch, positions, heads * width]."""
    batch, heads, positions, width = x.type.shape
    return n.emit(Reshape((batch, positions, heads * width)), n.emit(Transpose(HEADS_FIRST), x))


@onnx_op("Attention")
def attention(n: NodeContext) -> Sequence[Value | None]:
    """Our own op where it can, else from its parts: a soft cap, or scores that are wanted."""
    q, k, v = n[0], n[1], n[2]
    merged = q.type.rank == 3
    if merged:
        q = split_heads(n, q, n.integer("q_num_heads"))
        k, v = (split_heads(n, x, n.integer("kv_num_heads")) for x in (k, v))
    for operand in (q, k, v):
        n.extents(operand, 4)
    past, past_value = n.get(4), n.get(5)
    if past is not None and past_value is not None:
        k, v = n.emit(Concat(2), past, k), n.emit(Concat(2), past_value, v)
    if k.type.shape[1] < 1 or q.type.shape[1] % k.type.shape[1]:
        raise ModelError(f"heads of {q.type} cannot share those of {k.type}")
    y, scores = _attend(n, q, k, as_dtype(n, v, q.type.dtype))
    y = as_dtype(n, y, n[2].type.dtype)
    return (merge_heads(n, y) if merged else y, k, v, scores)


def _attend(n: NodeContext, q: Value, k: Value, v: Value) -> tuple[Value, Value | None]:
    """The result, and what else is wanted of the scores."""
    scale = n.number("scale", 1 / math.sqrt(q.type.shape[3] or 1))
    queries, keys, past = q.type.shape[2], k.type.shape[2], n.get(4)
    ahead = 0 if past is None else n.extents(past, 4)[2]
    plain_causal = _is_causal(n) and n.get(6) is None and ahead == keys - queries
    mask = _mask(n, q, keys, ahead, with_causal=_is_causal(n) and not plain_causal)
    if not n.number("softcap", 0.0) and not n.wants(3):
        return n.emit(Attention(scale, plain_causal), q, k, v, mask), None
    if plain_causal:
        mask = _mask(n, q, keys, ahead, with_causal=True)
    return _attend_in_parts(n, att.emit_scores(n.builder, q, k, scale), mask, v)


def _attend_in_parts(
    n: NodeContext, scores: Value, mask: Value | None, v: Value
) -> tuple[Value, Value]:
    stages = [scores]
    cap = n.number("softcap", 0.0)
    if cap:
        limit = scalar(n.builder, cap, scores)
        scores = n.emit(Mul(), n.emit(Tanh(), n.emit(Div(), scores, limit)), limit)
    stages.append(scores)
    if mask is not None:
        scores = att.emit_masked(n.builder, scores, mask)
    stages.append(scores)
    precision = n.dtype("softmax_precision", scores.type.dtype)
    if not precision.is_float:
        raise ModelError(f"attribute 'softmax_precision' must be a float type, it is {precision}")
    wide = as_dtype(n, scores, precision)
    stages.append(as_dtype(n, att.emit_weights(n.builder, wide), scores.type.dtype))
    mode = n.integer("qk_matmul_output_mode", 0)
    if not 0 <= mode < len(stages):
        raise ModelError(f"attribute 'qk_matmul_output_mode' must be from 0 to 3, it is {mode}")
    return att.emit_mixed(n.builder, stages[3], v), stages[mode]


def _is_causal(n: NodeContext) -> bool:
    return bool(n.integer("is_causal", 0))


def _mask(n: NodeContext, q: Value, keys: int, ahead: int, *, with_causal: bool) -> Value | None:
    """Everything that keeps a query from a key, in one mask: boolean unless the model's is not."""
    given = n.get(3)
    if given is not None and not (given.type.dtype.is_float or given.type.dtype is d.boolean):
        raise ModelError(f"a mask must hold bool or floats, it is {given.type}")
    given = _padded_mask(n, given, keys)
    limits = _limits(n, q.type.shape[2], keys, ahead, with_causal)
    if given is not None and given.type.dtype is d.boolean:
        limits.append(given)
        given = None
    if not limits:
        return given
    allowed = reduce(lambda x, y: n.emit(And(), x, y), limits)
    if given is None:
        return allowed
    return n.emit(Where(), allowed, given, scalar(n.builder, -np.inf, given))


def _padded_mask(n: NodeContext, mask: Value | None, keys: int) -> Value | None:
    """A mask may be shorter than the keys: those beyond it do not count."""
    if (
        mask is None
        or not mask.type.rank
        or mask.type.shape[-1] >= keys
        or mask.type.shape[-1] == 1
    ):
        return mask
    none = (0,) * (mask.type.rank - 1)
    unseen = False if mask.type.dtype is d.boolean else -np.inf
    pad = Pad((*none, 0), (*none, keys - mask.type.shape[-1]))
    return n.emit(pad, mask, scalar(n.builder, unseen, mask))


def _limits(n: NodeContext, queries: int, keys: int, ahead: int, with_causal: bool) -> list[Value]:
    """Booleans that say which keys each query may see, by where it stands."""
    key = n.emit(Iota((1, keys), 1, d.i64))
    query = n.emit(Iota((queries, 1), 0, d.i64))
    lengths = n.get(6)
    limits = []
    if lengths is None:
        query = n.emit(Add(), query, _whole(n, ahead))
    else:
        lengths = n.emit(Reshape((lengths.type.size, 1, 1, 1)), lengths)
        query = n.emit(Add(), query, n.emit(Sub(), lengths, _whole(n, queries)))
        limits.append(n.emit(Less(), key, lengths))
    left, right = n.integer("left_window_size", -1), n.integer("right_window_size", -1)
    if with_causal:
        limits.append(n.emit(LessEqual(), key, query))
    if left >= 0:
        limits.append(n.emit(LessEqual(), n.emit(Sub(), query, _whole(n, left)), key))
    if right >= 0:
        limits.append(n.emit(LessEqual(), key, n.emit(Add(), query, _whole(n, right))))
    return limits


def _whole(n: NodeContext, number: int) -> Value:
    return n.integers_of((number,), ())


@onnx_op("RotaryEmbedding")
def rotary_embedding(n: NodeContext) -> Value:
    """Inputs: x, cosines, sines, positions."""
    return rotate_any(n, n[0], (n[1], n[2]), n.get(3), n.integer("num_heads", 0))


@dataclass(frozen=True)
class Rotation:
    """How many elements of a head turn, and whether pairs are neighbours rather than halves."""

    width: int
    interleaved: bool


def rotate_any(
    n: NodeContext, x: Value, caches: tuple[Value, Value], positions: Value | None, heads: int
) -> Value:
    """Pairs of elements turned, in heads that are apart or not, as the node's attributes tell."""
    apart = x if x.type.rank == 4 else split_heads(n, x, heads)
    width = n.integer("rotary_embedding_dim", 0) or apart.type.shape[3]
    rotation = Rotation(width, bool(n.integer("interleaved", 0)))
    turned = rotate(n, apart, caches, positions, rotation)
    return turned if x.type.rank == 4 else merge_heads(n, turned)


def rotate(
    n: NodeContext,
    x: Value,
    caches: tuple[Value, Value],
    positions: Value | None,
    rotation: Rotation,
) -> Value:
    """Pairs of elements of x [batch, heads, positions, width], turned by where they stand."""
    width, interleaved = rotation.width, rotation.interleaved
    if positions is not None:
        caches = tuple(n.emit(Gather(0), c, positions) for c in caches)  # type: ignore[assignment]  # two stay two
    cosine, sine = (n.emit(Reshape(_with_head(c.type.shape)), c) for c in caches)
    step, second = (2, 1) if interleaved else (1, width // 2)
    first_half = n.emit(slice_axis(x.type, 3, 0, width // 2, step), x)
    second_half = n.emit(slice_axis(x.type, 3, second, width // 2, step), x)
    real = n.emit(Sub(), n.emit(Mul(), cosine, first_half), n.emit(Mul(), sine, second_half))
    imaginary = n.emit(Add(), n.emit(Mul(), sine, first_half), n.emit(Mul(), cosine, second_half))
    turned = _interleave(n, real, imaginary) if interleaved else n.emit(Concat(3), real, imaginary)
    rest = x.type.shape[3] - width
    if not rest:
        return turned
    return n.emit(Concat(3), turned, n.emit(slice_axis(x.type, 3, width, rest), x))


def _with_head(shape: tuple[int, ...]) -> tuple[int, ...]:
    """[batch, positions, width] as [batch, 1, positions, width]."""
    if not shape:
        raise ModelError("cosines and sines must have axes")
    return (shape[0], 1, *shape[1:])


def _interleave(n: NodeContext, even: Value, odd: Value) -> Value:
    """Elements of two values in turns, along the last axis."""
    shape = even.type.shape
    pair = [n.emit(Reshape((*shape, 1)), part) for part in (even, odd)]
    return n.emit(Reshape((*shape[:-1], 2 * shape[-1])), n.emit(Concat(len(shape)), *pair))
