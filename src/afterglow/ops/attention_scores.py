"""The scores of attention, and the weights that softmax makes of them."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Op, Value
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
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types import dtype as d


@dataclass(frozen=True, repr=False)
class WeighsKeys(Op):
    """Base: each query weighs the keys by softmax(scale q kᵀ + mask)."""

    takes_any_order = True

    scale: float
    causal: bool = False

    def require_fit(
        self, q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None
    ) -> TensorType:
        """Raise unless they fit together; the type of the mixed values."""
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

    def weights_of(self, q: Array, k: Array, mask: Array | None) -> Array:
        """How much each query weighs each key: [batch, heads, queries, keys].

        Queries that share a head of keys are multiplied together.
        """
        batch, heads, queries, _ = q.shape
        keys = k.shape[2]
        scores = (folded(q * self.scale, k) @ k.swapaxes(-1, -2)).reshape(
            batch, heads, queries, keys
        )
        if mask is not None:
            scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
        if self.causal:
            scores = np.where(np.tri(queries, keys, keys - queries, np.bool_), scores, -np.inf)
        peak = scores.max(-1, keepdims=True, initial=-np.inf)
        e = np.exp(scores - np.where(np.isneginf(peak), 0, peak))
        return np.asarray(e / np.maximum(e.sum(-1, keepdims=True), 1))

    def emit_weights_of(self, b: Builder, q: Value, k: Value, mask: Value | None) -> Value:
        """The same, from simpler ops."""
        scores = emit_scores(b, q, k, self.scale)
        if mask is not None:
            scores = emit_masked(b, scores, mask)
        if self.causal:
            queries, keys = scores.type.shape[2:]
            scores = emit_masked(b, scores, emit_causal(b, queries, keys, keys - queries))
        return b.emit(Softmax(), scores) if mask is None else emit_weights(b, scores)


def folded(x: Array, shared: Array) -> Array:
    """Rows of all heads that share a head of another operand, one after the other."""
    batch, heads, rows, columns = x.shape
    count = shared.shape[1]
    return x.reshape(batch, count, heads // count * rows, columns)


def _require_mask(mask: TensorType, scores: TensorType) -> None:
    known = mask.dtype in (d.boolean, scores.dtype)
    require(known, f"mask must hold bool or the elements of q, got {mask}")
    fits = broadcast_shape(mask=mask, scores=scores) == scores.shape
    require(fits, f"mask must broadcast to {scores.shape}, got {mask}")


def emit_scores(b: Builder, q: Value, k: Value, scale: float) -> Value:
    """scale q kᵀ: [batch, heads, queries, keys]."""
    return emit_products(b, b.emit(Mul(), q, scalar(b, scale, q)), k)


def emit_products(b: Builder, x: Value, shared: Value) -> Value:
    """x sharedᵀ for each head of x: [batch, heads, rows of x, rows of shared]."""
    products = b.emit(MatMul(transpose_rhs=True), emit_folded(b, x, shared), shared)
    return _emit_unfolded(b, products, x)


def emit_folded(b: Builder, x: Value, shared: Value) -> Value:
    """Rows of all heads that share a head of another operand, one after the other."""
    batch, heads, rows, columns = x.type.shape
    count = shared.type.shape[1]
    if count == heads:
        return x
    return b.emit(Reshape((batch, count, heads // count * rows, columns)), x)


def _emit_unfolded(b: Builder, x: Value, like: Value) -> Value:
    """The heads of another operand, out of those that share."""
    shape = (*like.type.shape[:3], x.type.shape[3])
    return x if x.type.shape == shape else b.emit(Reshape(shape), x)


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
    lowest = scores.type.dtype.finite_limits[0]
    peak = b.emit(Max(), b.emit(ReduceMax((3,)), scores), scalar(b, lowest, scores))
    e = b.emit(Exp(), b.emit(Sub(), scores, peak))
    total = b.emit(Max(), b.emit(ReduceSum((3,)), e), scalar(b, 1, e))
    return b.emit(Div(), e, total)


def emit_mixed(b: Builder, weights: Value, v: Value) -> Value:
    """The means of the values: [batch, heads, queries, width of v]."""
    return _emit_unfolded(b, b.emit(MatMul(), emit_folded(b, weights, v), v), weights)
