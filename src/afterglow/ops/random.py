"""Random numbers that are the same wherever they are computed.

They come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a
function from a counter to four words of 32 bits, without any state between them. So each element
is computed on its own, in any order, and every backend gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.graph import Array, Op, op
from afterglow.ops.rules import require, require_dtype, require_rank
from afterglow.types import DType, TensorType
from afterglow.types.dtype import f32, f64, i64

ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF


def philox(counter: Sequence[Array | int], key: tuple[int, int]) -> list[Array]:
    """Four words for each counter of four words, and a key of two."""
    words: list[Array] = [np.asarray(word, np.uint64) for word in counter]
    a, b, c, d = words
    for turn in range(ROUNDS):
        first, second = ((k + turn * s) & _WORD for k, s in zip(key, _KEY_STEPS, strict=True))
        low, high = a * np.uint64(_MULTIPLIERS[0]), c * np.uint64(_MULTIPLIERS[1])
        a, c = (high >> 32) ^ b ^ np.uint64(first), (low >> 32) ^ d ^ np.uint64(second)
        b, d = high & _WORD, low & _WORD
    return [a, b, c, d]


@op("random_uniform")
class RandomUniform(Op):
    """Random floats from 0 up to 1, which is none of them; others with every `run`.

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
        """All blocks at once."""
        count = TensorType(self.dtype, self.shape).size
        of_block = 4 if self.dtype is f32 else 2
        blocks = np.arange(-(-count // of_block), dtype=np.uint64)
        number = int(run) & (2**64 - 1)
        counter = (blocks, self.stream, number & _WORD, number >> 32)
        words = np.stack(philox(counter, (self.seed & _WORD, self.seed >> 32)), -1).reshape(-1)
        if self.dtype is f32:
            drawn = (words >> 8).astype(np.float32) * np.float32(2.0**-24)
        else:
            drawn = ((words[::2] >> 5) * 2.0**26 + (words[1::2] >> 6)) * 2.0**-53
        return drawn[:count].reshape(self.shape)
