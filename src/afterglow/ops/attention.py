"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.graph.op import aligned_axis
from afterglow.ops.elementwise import Add, Div, LessEqual, Max, Mul, Sub, Where, scalar
from afterglow.ops.extents import integers
from afterglow.ops.functions import Exp
from afterglow.ops.indexing import Iota
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape
from afterglow.ops.reduction import ReduceMax, ReduceSum
from afterglow.ops.rules import (
    broadcast_shape,
    require,
    require_float,
    require_rank,
    require_same_dtype,
)
from afterglow.ops.softmax import Softmax
from afterglow.types import Array, TensorType
from afterglow.types import dtype as d


@op("attention")
class Attention(Op):
    """Scaled dot-product attention for each head: softmax(scale q kᵀ + mask) v.

    There may be fewer heads of keys and values: then that many heads of queries share each.
    A boolean mask says which keys count. Causal: the last query sees every key, the one before it
    all but the last key, and so on. A query that sees no key gives 0.
    """

    takes_any_order = True

    scale: float
    causal: bool = False

    def infer(
        self, q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None = None
    ) -> TensorType:
        """[batch, heads, queries, width of v]."""
        require_rank(4, q=q, k=k, v=v)
        require_float(q=q)
        dtype = require_same_dtype(q=q, k=k, v=v)
        batch, heads, queries, width = q.shape
        shared, keys = k.shape[1:3]
        require(k.shape[0] == batch and k.shape[3] == width, f"k does not fit q, got {k} and {q}")
        require(v.shape[:3] == k.shape[:3], f"v does not fit k, got {v} and {k}")
        require(
            shared > 0 and heads % shared == 0,
            f"{heads} heads of q cannot share {shared} heads of k",
        )
        require(
            not self.causal or keys >= queries,
            f"a causal mask needs a key for each query, got {queries} queries and {keys} keys",
        )
        if mask is not None:
            _require_mask(mask, q.with_shape((batch, heads, queries, keys)))
        return TensorType(dtype, (batch, heads, queries, v.shape[3]))

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications: every query with every key, and with every value."""
        q, k, *_ = self.required_of(operands)
        return (q.size + result.size) * k.shape[2]

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Images and heads, and queries unless a causal mask counts them."""
        q, k, *_ = self.required_of(operands)
        shared = (axis, axis, axis) if axis < 2 else (axis, None, None)
        grouped = axis == 1 and k.shape[1] != q.shape[1]
        if axis == 3 or grouped or (axis == 2 and self.causal):
            return None
        mask = operands[3] if len(operands) > 3 else None
        rest = () if mask is None else (aligned_axis(axis, result, mask),)
        return (*shared, *rest)

    def evaluate(self, q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
        """As it is written; queries that share a head of keys are multiplied together."""
        batch, heads, queries, width = q.shape
        shared, keys = k.shape[1:3]
        folded = (q * self.scale).reshape(batch, shared, heads // shared * queries, width)
        scores = (folded @ k.swapaxes(-1, -2)).reshape(batch, heads, queries, keys)
        if mask is not None:
            scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
        if self.causal:
            scores = np.where(np.tri(queries, keys, keys - queries, np.bool_), scores, -np.inf)
        peak = scores.max(-1, keepdims=True, initial=-np.inf)
        e = np.exp(scores - np.where(np.isneginf(peak), 0, peak))
        weights = e / np.maximum(e.sum(-1, keepdims=True), 1)
        mixed = weights.reshape(batch, shared, heads // shared * queries, keys) @ v
        return mixed.reshape(batch, heads, queries, v.shape[3])

    def lower(self, b: Builder, q: Value, k: Value, v: Value, mask: Value | None = None) -> Value:
        """As `evaluate`, from simpler ops."""
        scores = emit_scores(b, q, k, self.scale)
        if mask is not None:
            scores = emit_masked(b, scores, mask)
        if self.causal:
            queries, keys = scores.type.shape[2:]
            scores = emit_masked(b, scores, emit_causal(b, queries, keys, keys - queries))
        weights = b.emit(Softmax(), scores) if mask is None else emit_weights(b, scores)
        return emit_mixed(b, weights, v)


def _require_mask(mask: TensorType, scores: TensorType) -> None:
    known = mask.dtype in (d.boolean, scores.dtype)
    require(known, f"mask must hold bool or the elements of q, got {mask}")
    fits = broadcast_shape(mask=mask, scores=scores) == scores.shape
    require(fits, f"mask must broadcast to {scores.shape}, got {mask}")


def emit_scores(b: Builder, q: Value, k: Value, scale: float) -> Value:
    """scale q kᵀ: [batch, heads, queries, keys]."""
    batch, heads, queries, width = q.type.shape
    shared, keys = k.type.shape[1:3]
    scaled = b.emit(Mul(), q, scalar(b, scale, q))
    if shared == heads:
        return b.emit(MatMul(transpose_rhs=True), scaled, k)
    folded = b.emit(Reshape((batch, shared, heads // shared * queries, width)), scaled)
    scores = b.emit(MatMul(transpose_rhs=True), folded, k)
    return b.emit(Reshape((batch, heads, queries, keys)), scores)


def emit_masked(b: Builder, scores: Value, mask: Value) -> Value:
    """Scores plus the mask; -infinity where a boolean one is false."""
    if mask.type.dtype is not d.boolean:
        return b.emit(Add(), scores, mask)
    return b.emit(Where(), mask, scores, scalar(b, -np.inf, scores))


def emit_causal(b: Builder, queries: int, keys: int, ahead: int) -> Value:
    """Which keys come no later than each query, which `ahead` keys precede: [queries, keys]."""
    last = b.emit(Iota((queries, 1), 0, d.i64))
    if ahead != 0:
        last = b.emit(Add(), last, integers(b, (ahead,), (), "ahead"))
    return b.emit(LessEqual(), b.emit(Iota((1, keys), 1, d.i64)), last)


def emit_weights(b: Builder, scores: Value) -> Value:
    """Softmax of the last axis, but 0 where all scores are -infinity."""
    lowest = float(ml_dtypes.finfo(scores.type.dtype.numpy).min)  # type: ignore[no-untyped-call]  # ships no types
    peak = b.emit(Max(), b.emit(ReduceMax((3,)), scores), scalar(b, lowest, scores))
    e = b.emit(Exp(), b.emit(Sub(), scores, peak))
    total = b.emit(Max(), b.emit(ReduceSum((3,)), e), scalar(b, 1, e))
    return b.emit(Div(), e, total)


def emit_mixed(b: Builder, weights: Value, v: Value) -> Value:
    """The means of the values: [batch, heads, queries, width of v]."""
    batch, heads, queries, keys = weights.type.shape
    shared, width = v.type.shape[1], v.type.shape[3]
    if shared == heads:
        return b.emit(MatMul(), weights, v)
    folded = b.emit(Reshape((batch, shared, heads // shared * queries, keys)), weights)
    return b.emit(Reshape((batch, heads, queries, width)), b.emit(MatMul(), folded, v))
