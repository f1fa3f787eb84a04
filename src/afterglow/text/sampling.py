"""Choosing the next token from logits: greedy, or at random with a seed."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from numbers import Real
from operator import index
from typing import Any

import numpy as np

from afterglow.support.errors import ModelError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

_WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_ABOVE_0 = math.ulp(0.0)


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen.

    `temperature` 0 takes the likeliest token; otherwise logits are divided by it, and a token is
    drawn from the `top_k` likeliest (0: all), of these from the fewest whose probabilities reach
    `top_p` together, of these from the ones at least `min_p` times as likely as the likeliest.
    `repetition_penalty` divides positive logits of tokens that were there before, and multiplies
    negative ones. `seed` decides all draws; None takes a different one each time.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, rule, low, high in (
            ("temperature", "a number, 0 or more", 0.0, math.inf),
            ("top_p", "above 0 and at most 1", _ABOVE_0, 1.0),
            ("min_p", "from 0 to 1", 0.0, 1.0),
            ("repetition_penalty", "a number above 0", _ABOVE_0, math.inf),
        ):
            given = getattr(self, name)
            is_number = isinstance(given, Real) and not isinstance(given, bool)
            if not is_number or not math.isfinite(given) or not low <= given <= high:
                raise UsageError(f"{name} must be {rule}, got {given!r}")
        if not is_count(self.top_k):
            raise UsageError(
                f"top_k must be a whole number, 0 or more, got {self.top_k!r}",
                help="0 is no limit",
            )
        if self.seed is not None and not (is_count(self.seed) and index(self.seed) <= _WORD):
            raise UsageError(f"seed must be a whole number from 0 to 2**64 - 1, got {self.seed!r}")


def is_count(value: Any) -> bool:
    """Whether something is a whole number, 0 or more."""
    try:
        return not isinstance(value, bool) and index(value) >= 0
    except TypeError:
        return False


def uniform(seed: int, count: int) -> float:
    """Random number `count` of a seed, at least 0 and below 1: the generator SplitMix64."""
    word = (seed + (count + 1) * _STEP) & _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return ((word ^ (word >> 31)) >> 11) / (1 << 53)


class Sampler:
    """Chooses the tokens of one sequence.

    Token number n is drawn with random number n of the seed, so what is drawn depends neither on
    other sequences nor on how many tokens a run of the model verified at once.
    """

    def __init__(self, sampling: Sampling, vocabulary: int, prompt: Sequence[int]) -> None:
        self.sampling = sampling
        self.seed = int.from_bytes(os.urandom(8), "little")
        if sampling.seed is not None:
            self.seed = index(sampling.seed)
        self._seen = None
        if sampling.repetition_penalty != 1:
            self._seen = np.zeros(vocabulary, bool)
            self._seen[list(prompt)] = True

    def choose(self, logits: Array, count: int, allowed: Array | None = None) -> int:
        """Token number `count`, given the logits for it and which tokens are allowed."""
        logits = self._penalized(logits)
        if allowed is not None:
            logits = np.where(allowed, logits, np.float32(-np.inf))
        token = int(logits.argmax())
        if not logits[token] > -np.inf:  # also if it is not a number
            raise ModelError(
                f"the model's logits cannot be compared: the largest is {logits[token]}"
            )
        if self.sampling.temperature > 0:
            token = self._drawn(logits, token, count)
        if self._seen is not None:
            self._seen[token] = True
        return token

    def _penalized(self, logits: Array) -> Array:
        if self._seen is None:
            return logits
        penalty = np.float32(self.sampling.repetition_penalty)
        lower = np.where(logits > 0, logits / penalty, logits * penalty)
        return np.where(self._seen, lower, logits)

    def _drawn(self, logits: Array, likeliest: int, count: int) -> int:
        """A token by its probability, in the order of tokens."""
        sampling = self.sampling
        scaled = (logits.astype(np.float64) - float(logits[likeliest])) / sampling.temperature
        kept = _likeliest(scaled, sampling.top_k)
        likely = np.exp(scaled[kept])
        if sampling.top_p < 1:
            is_kept = _nucleus(likely, sampling.top_p)
            kept, likely = kept[is_kept], likely[is_kept]
        if sampling.min_p > 0:
            is_kept = likely >= sampling.min_p * likely.max()
            kept, likely = kept[is_kept], likely[is_kept]
        sums = likely.cumsum()
        place = sums.searchsorted(uniform(self.seed, count) * sums[-1], side="right")
        return int(kept[min(int(place), len(kept) - 1)])


def _likeliest(scaled: Array, count: int) -> Array:
    """The places of the largest elements, in order of places; all if the count is 0."""
    if not 0 < count < len(scaled):
        return np.arange(len(scaled))
    least = np.partition(scaled, len(scaled) - count)[len(scaled) - count]
    above, equal = np.flatnonzero(scaled > least), np.flatnonzero(scaled == least)
    return np.sort(np.concatenate([above, equal[: count - len(above)]]))


def _nucleus(likely: Array, share: float) -> Array:
    """Which of some weights are the fewest, the largest first, that make up a share of the sum."""
    total = likely.sum()
    # all smaller ones together are less than the rest of the sum: the nucleus is among the others
    candidates = np.flatnonzero(likely >= (1 - share) * total / len(likely))
    order = candidates[np.argsort(-likely[candidates], kind="stable")]
    count = int(likely[order].cumsum().searchsorted(share * total)) + 1
    is_kept = np.zeros(len(likely), bool)
    is_kept[order[:count]] = True
    return is_kept


def log_softmax(logits: Array) -> Array:
    """Log-probabilities of all tokens, in 64 bits."""
    shifted = logits.astype(np.float64) - float(logits.max())
    return shifted - math.log(float(np.exp(shifted).sum()))
