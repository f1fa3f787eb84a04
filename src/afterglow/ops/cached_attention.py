"""Attention of tokens of several sequences over caches of their keys and values.

A cache is [sequences, heads, context, width]: the row of a token is at its sequence and position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.attention import Attention
from afterglow.ops.attention_scores import emit_masked, emit_mixed, emit_scores, emit_weights
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import And, Equal, Less, LessEqual, Mul, Sub, scalar
from afterglow.ops.functions import Tanh
from afterglow.ops.indexing import Iota, ScatterND
from afterglow.ops.movement import Concat, Expand, Reshape, Transpose
from afterglow.ops.rules import (
    require,
    require_dtype,
    require_float,
    require_rank,
    require_same_dtype,
    require_shape,
    require_weights,
)
from afterglow.types import Array, IndexRange, IndexRanges, TensorType
from afterglow.types.dtype import f32, i8, i32


@op("write_rows")
class WriteRows(Op):
    """A cache with rows [tokens, heads, width] written at the sequence and position of each token.

    Of several tokens at one place, the last stays. A cache that is state is changed in place.
    """

    inplace = ("cache",)
    stored = ("cache", "rows")

    def infer(
        self, cache: TensorType, rows: TensorType, positions: TensorType, sequences: TensorType
    ) -> TensorType:
        """The type of the cache."""
        require_same_dtype(cache=cache, rows=rows)
        require_rank(4, cache=cache)
        require_rank(3, rows=rows)
        _require_places(rows.shape[0], positions, sequences)
        require_shape((rows.shape[0], cache.shape[1], cache.shape[3]), rows=rows)
        return cache

    def evaluate(self, cache: Array, rows: Array, positions: Array, sequences: Array) -> Array:
        """Assign to a copy."""
        out = np.array(cache)
        out[sequences, :, positions] = rows
        return out

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """Places in the cache."""
        return _ranges(self.required_of(operands)[0])

    def lower(
        self, b: Builder, cache: Value, rows: Value, positions: Value, sequences: Value
    ) -> Value:
        """A scatter at sequence, head and position."""
        tokens, heads, _ = rows.type.shape
        shape = (tokens, heads, 1)
        at, of = (
            b.emit(Expand(shape), b.emit(Reshape((tokens, 1, 1)), places))
            for places in (positions, sequences)
        )
        places = b.emit(Concat(2), of, b.emit(Iota(shape, 1, i32)), at)
        return b.emit(ScatterND(), cache, places, rows)


@op("cached_attention")
class CachedAttention(Op):
    """Attention of each token to the cached rows of its sequence up to its own position.

    Queries are [tokens, heads, width], caches [sequences, heads, context, width]. There may be
    fewer heads in the caches: then that many heads of queries share each. With a window only the
    last `window` positions count; with a soft cap, scores s become softcap * tanh(s / softcap).
    Caches may hold 16 bits of f32; those of i8 need scales [sequences, heads, context, 1].
    """

    stored = ("keys", "values")

    scale: float
    window: int = 0
    softcap: float = 0.0

    def infer(
        self,
        query: TensorType,
        keys: TensorType,
        values: TensorType,
        positions: TensorType,
        sequences: TensorType,
        key_scales: TensorType | None = None,
        value_scales: TensorType | None = None,
    ) -> TensorType:
        """[tokens, heads, width of values]."""
        require_float(query=query)
        require_rank(3, query=query)
        require_rank(4, keys=keys, values=values)
        require_same_dtype(keys=keys, values=values)
        tokens, heads, width = query.shape
        shared = keys.shape[1]
        require_shape((*keys.shape[:3], width), keys=keys)
        require_shape((*keys.shape[:3], values.shape[3]), values=values)
        require(
            shared > 0 and heads % shared == 0,
            f"{heads} heads of query cannot share {shared} heads of keys",
        )
        require(self.window >= 0, f"window must not be negative, got {self.window}")
        require(self.softcap >= 0, f"softcap must not be negative, got {self.softcap}")
        _require_places(tokens, positions, sequences)
        _require_scales(query, keys, key_scales, value_scales)
        return query.with_shape((tokens, heads, values.shape[3]))

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications: every query with every key, and with every value."""
        query, keys, *_ = self.required_of(operands)
        return (query.size + result.size) * keys.shape[2]

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """Places in the caches."""
        return _ranges(self.required_of(operands)[1])

    def evaluate(
        self,
        query: Array,
        keys: Array,
        values: Array,
        positions: Array,
        sequences: Array,
        key_scales: Array | None = None,
        value_scales: Array | None = None,
    ) -> Array:
        """Token by token."""
        out = np.empty((*query.shape[:2], values.shape[3]), query.dtype)
        for token, (position, sequence) in enumerate(zip(positions, sequences, strict=True)):
            first = max(0, position + 1 - self.window) if self.window else 0
            seen = sequence, slice(None), slice(first, position + 1)
            k, v = (
                cache[seen].astype(query.dtype) * (1 if scales is None else scales[seen])
                for cache, scales in ((keys, key_scales), (values, value_scales))
            )
            out[token] = self._mixed(query[token], k, v)
        return out

    def _mixed(self, query: Array, k: Array, v: Array) -> Array:
        """What one token [heads, width] gets from the rows [heads, rows, width] that it sees."""
        grouped = query.reshape(len(k), -1, query.shape[1])
        scores = grouped @ k.swapaxes(1, 2) * self.scale
        if self.softcap:
            scores = np.tanh(scores / self.softcap) * self.softcap
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True) @ v).reshape(len(query), -1)

    def lower(
        self,
        b: Builder,
        query: Value,
        keys: Value,
        values: Value,
        positions: Value,
        sequences: Value,
        key_scales: Value | None = None,
        value_scales: Value | None = None,
    ) -> Value:
        """Attention to the rows of all sequences, with a mask of those that a token sees."""
        tokens, heads, width = query.type.shape
        q = b.emit(Reshape((1, heads, tokens, width)), _tokens_inside(b, query))
        k = _all_rows(b, query, keys, key_scales)
        v = _all_rows(b, query, values, value_scales)
        mask = self._emit_mask(b, keys.type, positions, sequences)
        if self.softcap:
            scores = emit_scores(b, q, k, self.scale / self.softcap)
            scores = b.emit(Mul(), b.emit(Tanh(), scores), scalar(b, self.softcap, scores))
            out = emit_mixed(b, emit_weights(b, emit_masked(b, scores, mask)), v)
        else:
            out = b.emit(Attention(self.scale), q, k, v, mask)
        out = b.emit(Reshape((heads, tokens, values.type.shape[3])), out)
        return _tokens_inside(b, out)

    def _emit_mask(self, b: Builder, keys: TensorType, positions: Value, sequences: Value) -> Value:
        """Which rows of all sequences each token sees: [tokens, sequences * context]."""
        count, _, context, _ = keys.shape
        tokens = positions.type.shape[0]
        own, of = (b.emit(Reshape((tokens, 1, 1)), x) for x in (positions, sequences))
        row = b.emit(Iota((1, 1, context), 2, positions.type.dtype))
        seen = b.emit(LessEqual(), row, own)
        if self.window:
            before = b.emit(Sub(), own, scalar(b, self.window, own))
            seen = b.emit(And(), seen, b.emit(Less(), before, row))
        if count != 1:
            number = b.emit(Iota((1, count, 1), 1, sequences.type.dtype))
            seen = b.emit(And(), seen, b.emit(Equal(), number, of))
        return b.emit(Reshape((tokens, count * context)), seen)


def _require_places(tokens: int, positions: TensorType, sequences: TensorType) -> None:
    require_dtype(i32, positions=positions, sequences=sequences)
    require_shape((tokens,), positions=positions, sequences=sequences)


def _require_scales(query: TensorType, keys: TensorType, *scales: TensorType | None) -> None:
    """Scales are there if, and only if, caches hold i8."""
    if keys.dtype is not i8:
        require_weights(query=query, keys=keys)
        given = any(scale is not None for scale in scales)
        require(not given, f"only caches of i8 have scales, got {keys}")
        return
    for name, scale in zip(("key_scales", "value_scales"), scales, strict=True):
        require(scale is not None, f"caches of i8 need {name}, got none with {keys}")
        if scale is not None:
            require_dtype(f32, **{"query": query, name: scale})
            require_shape((*keys.shape[:3], 1), **{name: scale})


def _ranges(cache: TensorType) -> Mapping[str, IndexRanges]:
    sequences, _, context, _ = cache.shape
    return {
        "positions": (IndexRange(0, context - 1),),
        "sequences": (IndexRange(0, sequences - 1),),
    }


def _tokens_inside(b: Builder, x: Value) -> Value:
    """The first two axes exchanged."""
    return b.emit(Transpose((1, 0, 2)), x)


def _all_rows(b: Builder, query: Value, cache: Value, scales: Value | None) -> Value:
    """The rows of all sequences one after the other: [1, heads, sequences * context, width]."""
    sequences, heads, context, width = cache.type.shape
    if cache.type.dtype is not query.type.dtype:
        cache = b.emit(Cast(query.type.dtype), cache)
    if scales is not None:
        cache = b.emit(Mul(), cache, scales)
    if sequences != 1:
        cache = b.emit(Transpose((1, 0, 2, 3)), cache)
    return b.emit(Reshape((1, heads, sequences * context, width)), cache)
