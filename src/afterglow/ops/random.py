"""Random numbers that are the same wherever they are computed.

They come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a
function from a counter to four words of 32 bits, without any state between them. So each element
is computed on its own, in any order, and every backend gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, And, BitCast, Mul, ShiftLeft, ShiftRight, Xor, scalar
from afterglow.ops.indexing import Iota
from afterglow.ops.movement import Concat, Reshape, slice_axis
from afterglow.ops.rules import require, require_dtype, require_float, require_rank
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import f32, f64, i64, u64

ROUNDS = 10
MOST_BLOCKS = 1 << 18
"""Blocks that are evaluated at once: on the way they take several times the memory."""
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
WORD = 0xFFFFFFFF
"""The bits of a word."""


def philox(counter: Sequence[Any], key: tuple[int, int]) -> list[Any]:
    """Four words for each counter of four words, and a key of two.

    Words are unsigned integers of 64 bits: arrays, or anything else with their arithmetic.
    """
    a, b, c, d = counter
    for first, second in _round_keys(key):
        low, high = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, c = (high >> 32) ^ b ^ first, (low >> 32) ^ d ^ second
        b, d = high & WORD, low & WORD
    return [a, b, c, d]


def _round_keys(key: tuple[int, int]) -> Iterator[tuple[int, int]]:
    for turn in range(ROUNDS):
        yield (
            (key[0] + turn * _KEY_STEPS[0]) & WORD,
            (key[1] + turn * _KEY_STEPS[1]) & WORD,
        )


def _philox_nodes(b: Builder, counter: Sequence[Value], key: tuple[int, int]) -> list[Value]:
    """The same as nodes, on words of 64 bits."""

    def mixed(product: Value, word: Value, number: int) -> Value:
        high = b.emit(ShiftRight(), product, scalar(b, 32, product))
        return b.emit(Xor(), b.emit(Xor(), high, word), scalar(b, number, word))

    p, q, r, s = counter
    for first, second in _round_keys(key):
        low = b.emit(Mul(), p, scalar(b, _MULTIPLIERS[0], p))
        high = b.emit(Mul(), r, scalar(b, _MULTIPLIERS[1], r))
        p, r = mixed(high, q, first), mixed(low, s, second)
        q, s = (b.emit(And(), x, scalar(b, WORD, x)) for x in (high, low))
    return [p, q, r, s]


@op("random_uniform")
class RandomUniform(Op):
    """Random floats in the interval [0, 1), different in every `run`.

    The key is `seed`, low word first; the counter of a block is its number, `stream`, and the two
    words of `run`. A block gives four f32, each the upper 24 bits of a word over 2**24, or two
    f64, each the upper 27 bits of a word and the upper 26 of the next over 2**53.
    """

    shape: tuple[int, ...]
    dtype: DType = f32
    seed: int = 0
    stream: int = 0

    def infer(self, run: TensorType) -> TensorType:
        """The shape and element type asked for."""
        require_dtype(i64, run=run)
        require_rank(0, run=run)
        require(self.dtype in (f32, f64), f"only f32 and f64 can be drawn, not {self.dtype}")
        require(0 <= self.seed < 2**64, f"seed {self.seed} does not have 64 bits")
        return TensorType(self.dtype, self.shape)

    def evaluate(self, run: Array) -> Array:
        """Many blocks at once."""
        number, each = int(run) & (2**64 - 1), 4 if self.dtype is f32 else 2
        drawn = np.empty(self._blocks * each, self.dtype.numpy)
        for first in range(0, self._blocks, MOST_BLOCKS):
            blocks = np.arange(first, min(first + MOST_BLOCKS, self._blocks), dtype=np.uint64)
            drawn[first * each : (first + len(blocks)) * each] = self._drawn(blocks, number)
        return drawn[: self._count].reshape(self.shape)

    def _drawn(self, blocks: Array, number: int) -> Array:
        """The numbers of some blocks."""
        counter = (blocks, self.stream, number & WORD, number >> 32)
        arrays = np.broadcast_arrays(*(np.asarray(word, np.uint64) for word in counter))
        words = np.stack(philox(arrays, self.key), -1).reshape(-1)
        if self.dtype is f32:
            return (words >> 8).astype(np.float32) * np.float32(2.0**-24)
        return ((words[::2] >> 5) * 2.0**26 + (words[1::2] >> 6)) * 2.0**-53

    def lower(self, b: Builder, run: Value) -> Value:
        """As `evaluate`, by products and shifts of integers: the same bits on every backend."""
        number = b.emit(BitCast(u64), run)
        counter = [
            b.emit(Iota((self._blocks,), 0, u64)),
            b.constant(np.array(self.stream, np.uint64)),
            b.emit(And(), number, scalar(b, WORD, number)),
            b.emit(ShiftRight(), number, scalar(b, 32, number)),
        ]
        words = _philox_nodes(b, counter, self.key)
        numbers = words if self.dtype is f32 else [_wide(b, *words[:2]), _wide(b, *words[2:])]
        drop, bits = (8, 24) if self.dtype is f32 else (0, 53)
        drawn = []
        for x in numbers:
            kept = b.emit(ShiftRight(), x, scalar(b, drop, x))
            real = b.emit(Cast(self.dtype), kept)
            unit = b.emit(Mul(), real, scalar(b, 2.0**-bits, real))
            drawn.append(b.emit(Reshape((self._blocks, 1)), unit))
        row = b.emit(Reshape((self._blocks * len(drawn),)), b.emit(Concat(1), *drawn))
        return b.emit(Reshape(self.shape), b.emit(slice_axis(row.type, 0, 0, self._count), row))

    @property
    def key(self) -> tuple[int, int]:
        """The seed as two words."""
        return self.seed & WORD, self.seed >> 32

    @property
    def _count(self) -> int:
        return TensorType(self.dtype, self.shape).size

    @property
    def _blocks(self) -> int:
        return -(-self._count // (4 if self.dtype is f32 else 2))


@op("dropout")
class Dropout(Op):
    """x. When a network is trained, each element is 0 with probability `rate` instead.

    The elements that are left are then divided by 1 - rate. `training/mode.py` does both.
    """

    inplace = ("x",)
    rate: float = 0.5

    def infer(self, x: TensorType) -> TensorType:
        """The operand's own type."""
        require_float(x=x)
        require(0 <= self.rate < 1, f"rate must be from 0 to below 1, got {self.rate}")
        return x

    def evaluate(self, x: Array) -> Array:
        """Nothing is dropped."""
        return x

    def lower(self, b: Builder, x: Value) -> Value:
        """Nothing is left of it."""
        return x

    def permuted(self, perm: tuple[int, ...]) -> Op:
        """Itself."""
        return self


def _wide(b: Builder, first: Value, second: Value) -> Value:
    """53 bits of two words."""
    high = b.emit(ShiftRight(), first, scalar(b, 5, first))
    low = b.emit(ShiftRight(), second, scalar(b, 6, second))
    return b.emit(Add(), b.emit(ShiftLeft(), high, scalar(b, 26, high)), low)
