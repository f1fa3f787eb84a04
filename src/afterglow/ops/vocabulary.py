"""Look-ups of numbers and strings in tables of known ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.ops.elementwise import Equal, Max, Where, scalar
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import Iota, ScatterND, ScatterReduction
from afterglow.ops.movement import Reshape
from afterglow.ops.rules import require, require_dtype, require_rank, require_same_dtype
from afterglow.types import Array, IndexRange, IndexRanges, TensorType
from afterglow.types.dtype import f32, i64, string


@op("look_up")
class LookUp(Op):
    """For each element the value of the equal key, or `default` if there is none.

    If a key is repeated the last one counts. NaN equals NaN.
    """

    host = True

    def infer(
        self, x: TensorType, keys: TensorType, values: TensorType, default: TensorType
    ) -> TensorType:
        """The shape of x, the element type of the values."""
        require_same_dtype(x=x, keys=keys)
        require_same_dtype(values=values, default=default)
        require_rank(1, keys=keys, values=values)
        require_rank(0, default=default)
        require(keys.shape == values.shape, f"keys and values pair up, got {keys} and {values}")
        return x.with_dtype(values.dtype)

    def evaluate(self, x: Array, keys: Array, values: Array, default: Array) -> Array:
        """By a dictionary for strings, else by bisection."""
        positions = _positions_of_strings(x, keys) if x.dtype == object else _positions(x, keys)
        found = np.full(x.shape, default[()], values.dtype)
        found[positions >= 0] = values[positions[positions >= 0]]
        return found

    def gradient(
        self,
        b: Builder,
        out: Value,
        grad: Value,
        x: Value,
        keys: Value,
        values: Value,
        default: Value,
    ) -> Gradients:
        """To a value the sum of what it was found for, to the default that of the others."""
        count, none = values.type.shape[0], b.emit(Fill((), -1, i64))
        places = b.emit(LookUp(), x, keys, b.emit(Iota((count,), 0, i64)), none)
        is_missing, zero = b.emit(Equal(), places, none), scalar(b, 0, grad)
        missed = b.emit(Where(), is_missing, grad, zero)
        if not count:
            return None, None, None, missed
        hits = b.emit(Where(), is_missing, zero, grad)
        first = b.emit(Reshape((x.type.size, 1)), b.emit(Max(), places, scalar(b, 0, places)))
        zeros = b.emit(Fill((count,), 0.0, grad.type.dtype))
        flat = b.emit(Reshape((x.type.size,)), hits)
        return None, None, b.emit(ScatterND(ScatterReduction.ADD), zeros, first, flat), missed

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...]:
        """Each element is looked up on its own."""
        return axis, None, None, None


def _positions_of_strings(x: Array, keys: Array) -> Array:
    """Where each element is among the keys, or -1."""
    position_of = {key: position for position, key in enumerate(keys)}
    found = [position_of.get(string, -1) for string in x.reshape(-1)]
    return np.array(found, np.int64).reshape(x.shape)


def _positions(x: Array, keys: Array) -> Array:
    if not keys.size:
        return np.full(x.shape, -1)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    nearest = np.maximum(np.searchsorted(ordered, x, side="right") - 1, 0)
    same = (ordered[nearest] == x) | ((ordered[nearest] != ordered[nearest]) & (x != x))
    return np.where(same, order[nearest], -1)


@op("ngram_count")
class NgramCount(Op):
    """The number of occurrences of each known n-gram in each row.

    `pool` lists the n-grams element by element: single ones first, then pairs, and so on; those
    of n elements begin at `starts[n - 1]`. The i-th of them all is counted at `places[i]`. Only
    those of `shortest` to `longest` elements count. Their elements stand next to each other, or
    with up to `most_skipped` others between any two of them, always as many.
    """

    host = True
    starts: tuple[int, ...]
    shortest: int
    longest: int
    most_skipped: int
    size: int

    def infer(self, x: TensorType, pool: TensorType, places: TensorType) -> TensorType:
        """Counts instead of the last axis."""
        require(x.dtype.is_integer or x.dtype is string, f"x must hold words or numbers, got {x}")
        require(1 <= x.rank <= 2, f"x must have 1 or 2 axes, got {x}")
        require_same_dtype(x=x, pool=pool)
        require_dtype(i64, places=places)
        require_rank(1, pool=pool, places=places)
        bounds = (0, *self.starts, pool.shape[0])
        ascending = all(a <= b for a, b in pairwise(bounds))
        require(ascending, f"starts {self.starts} do not divide a pool of {pool.shape[0]}")
        sizes = enumerate(pairwise((*self.starts, pool.shape[0])), 1)
        ngrams = sum((end - start) // length for length, (start, end) in sizes)
        require(ngrams <= places.shape[0], f"{ngrams} n-grams need a place each, got {places}")
        return TensorType(f32, (*x.shape[:-1], self.size))

    def evaluate(self, x: Array, pool: Array, places: Array) -> Array:
        """Row by row, each length and each distance on its own."""
        rows = x.tolist() if x.ndim == 2 else [x.tolist()]
        counts = np.zeros((len(rows), self.size), np.float32)
        for length, place_of in self._ngrams(pool, places).items():
            farthest = (x.shape[-1] - 1) // (length - 1) if length > 1 else 1
            for distance in range(1, min(self.most_skipped + 1, farthest) + 1):
                span = (length - 1) * distance + 1
                for row, words in zip(counts, rows, strict=True):
                    for start in range(len(words) - span + 1):
                        found = place_of.get(tuple(words[start : start + span : distance]))
                        if found is not None:
                            row[found] += 1
        return counts.reshape(*x.shape[:-1], self.size)

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """Places, counted from the first."""
        return {"places": (IndexRange.counts(self.size - 1),)}

    def _ngrams(self, pool: Array, places: Array) -> dict[int, dict[tuple[object, ...], int]]:
        """For each length that counts, where its n-grams are counted."""
        words, place = pool.tolist(), iter(places.tolist())
        found: dict[int, dict[tuple[object, ...], int]] = {}
        for length, (start, end) in enumerate(pairwise((*self.starts, len(words))), 1):
            firsts = range(start, end - length + 1, length)
            listed = {tuple(words[i : i + length]): next(place) for i in firsts}
            if self.shortest <= length <= self.longest:
                found[length] = listed
        return found
