"""Rotary position embeddings: by which angle each pair of elements is turned at each position."""

from __future__ import annotations

import math

import numpy as np

from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

MOST_WIDTH = 1 << 16
"""Elements of a head, at most: tables are made of them before tensors are compared with them."""


@dataclass(frozen=True)
class Yarn:
    """YaRN: low frequencies are divided by a factor, high ones are kept, others lie between."""

    factor: float
    original_context: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0


@dataclass(frozen=True)
class Rope:
    """How heads are turned.

    Of each head the first `width` elements are turned: neighbours together if `interleaved`, else
    each element of the first half with that of the second.
    """

    width: int
    base: float
    interleaved: bool = False
    factors: tuple[float, ...] = ()
    """What each frequency is divided by; nothing if all are divided by 1."""
    yarn: Yarn | None = None
    amplitude: float = 1.0
    """By which the turned elements are multiplied."""

    def __post_init__(self) -> None:
        if not 0 < self.width <= MOST_WIDTH or self.width % 2:
            raise ModelError(
                f"{self.width} elements of each head are to be turned: "
                f"an even number of them must be, {MOST_WIDTH:,} at most"
            )

    def tables(self, context: int) -> tuple[Array, Array]:
        """Cosines and sines, [context, width / 2]."""
        angles = np.arange(context, dtype=np.float64)[:, None] * self._frequencies()
        cosines, sines = np.cos(angles), np.sin(angles)
        return (
            (cosines * self.amplitude).astype(np.float32),
            (sines * self.amplitude).astype(np.float32),
        )

    def _frequencies(self) -> Array:
        """The angle between neighbouring positions, of each pair."""
        pairs = self.width // 2
        found = self.base ** (-np.arange(pairs, dtype=np.float64) / pairs)
        if self.factors:
            found = found / np.array(self.factors)
        return found if self.yarn is None else self._between(found, self.yarn)

    def _between(self, frequencies: Array, yarn: Yarn) -> Array:
        """Frequencies as they are and divided, mixed by how often they turn in the context."""
        first = math.floor(self._pair_turning(yarn.beta_fast, yarn))
        last = math.ceil(self._pair_turning(yarn.beta_slow, yarn))
        first, last = max(first, 0), min(last, self.width - 1)
        ramp = (np.arange(self.width // 2) - first) / max(last - first, 0.001)
        divided = np.clip(ramp, 0, 1)
        return frequencies * (1 - divided) + frequencies / yarn.factor * divided

    def _pair_turning(self, times: float, yarn: Yarn) -> float:
        """The pair that turns so many times in the original context."""
        turns = yarn.original_context / (times * 2 * math.pi)
        return self.width * math.log(turns) / (2 * math.log(self.base))


def llama3_factors(
    width: int, base: float, factor: float, low: float, high: float, context: int
) -> tuple[float, ...]:
    """Factors as Llama 3 has them: by wavelength, between bounds of an original context."""
    frequencies = base ** (-np.arange(width // 2, dtype=np.float64) / (width // 2))
    turns = context * frequencies / (2 * math.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return tuple((1 / ((1 - smooth) / factor + smooth)).tolist())
