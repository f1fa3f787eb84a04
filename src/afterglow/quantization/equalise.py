"""Equalisation: channels of activations are scaled to similar ranges, at the cost of weights.

What a layer computes is divided, channel by channel, and the weights that multiply it later take
the factors. Activations share one scale, so that small channels next to large ones would be
stored coarsely. Factors are powers of two: results keep every bit in floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from afterglow.graph import Function, Value
from afterglow.passes import Pass
from afterglow.quantization.channels import (
    ChannelGroup,
    Reader,
    channel_groups,
    divide_channels,
)
from afterglow.quantization.gains import add_gains, drop_gains
from afterglow.quantization.observation import Observation
from afterglow.quantization.scaled_observation import channel_powers
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

MOST_EXPONENT = 6
"""Channels are scaled by at most two to the power of that."""
BALANCES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""What is tried: from weights that are equal in all channels to activations that are."""
STRENGTHS = (0.5, 1.0)
"""How much of that is tried."""
MOST_NOISE = 0.6
"""The noise that is expected at most, as a part of that without scaling: each channel that is
scaled up saturates as soon as it reaches further than was observed."""
TINY = 1e-30
ACTIVATION_STEPS, WEIGHT_STEPS = 255, 127
"""Steps of the range of activations, and from zero to the largest weight of a row."""


class Equalise(Pass):
    """Channels between layers are scaled so that they suit one scale for all.

    Channels that cannot be told apart, such as those of the terms of a sum, have one factor. A
    group of values is left alone unless all that layers read of it was observed. Clips keep their
    bounds: channels are scaled up to these at most, so that they clip nothing that was observed.
    """

    name = "equalise"

    def __init__(self, observations: Mapping[str, Observation], *, gains: bool = True) -> None:
        self.observations = {**observations}
        """By the names of values."""
        self.gains = gains
        """Whether products by factors are added where nothing else can scale channels."""
        self.sources: dict[str, str] = {}
        """For what these compute, by name, the name of what is multiplied."""
        self.exponents: dict[str, Array] = {}
        """By what powers of two the channels of values were divided, by the names of these."""

    def run(self, function: Function) -> bool:
        """See the class."""
        gains = add_gains(function, self.observations) if self.gains else {}
        self.sources = {gain.result.name: value.name for gain, value in gains.items()}
        self.observations |= {
            name: self.observations[source] for name, source in self.sources.items()
        }
        self.exponents = {}
        for group in channel_groups(function, gains):
            self._scale(function, group)
        drop_gains(function, gains)
        return bool(self.exponents)

    def _scale(self, function: Function, group: ChannelGroup) -> None:
        """Scale the channels of a group, if that is expected to help."""
        scaling = _Scaling.of(group, self.observations)
        if scaling is None:
            return
        exponents = scaling.best()
        factors = np.ldexp(np.float32(1), exponents)
        if exponents.any() and divide_channels(function, group, factors):
            self.exponents |= dict(_by_value(group, exponents))


def _by_value(group: ChannelGroup, exponents: Array) -> Iterator[tuple[str, Array]]:
    """The exponents of each value that is scaled, by its name."""
    for value, places in group.values.items():
        if exponents[places].any():
            yield value.name, exponents[places]


@dataclass(frozen=True, eq=False)
class _Read:
    """What a layer reads: the set, the range and the mean square of each channel; its weight."""

    places: Array
    low: Array
    high: Array
    power: Array
    squares: Array
    """The sum of the squares of the weights of each channel."""
    largest: Array
    """The largest weight of each channel, [groups, rows, channels of a group]."""
    taps: int
    """How many weights of a row multiply one channel."""

    @staticmethod
    def of(reader: Reader, places: Array, seen: Observation) -> _Read:
        assert seen.channels is not None
        low, high = (x.astype(np.float64) for x in (seen.channels.low, seen.channels.high))
        power = channel_powers(seen)
        rows = reader.rows()
        squares = np.einsum("grtc,grtc->gc", rows, rows).ravel()
        largest, taps = np.abs(rows).max(2), rows.shape[2]
        return _Read(places, np.minimum(low, 0), np.maximum(high, 0), power, squares, largest, taps)

    @property
    def reach(self) -> Array:
        """How far each channel reaches, as a part of the farthest."""
        reach = np.maximum(-self.low, self.high)
        return np.asarray(reach / max(reach.max(), TINY))

    @property
    def weights(self) -> Array:
        """The largest weight of each channel, as a part of the largest."""
        largest = self.largest.max(1).ravel()
        return np.asarray(largest / max(largest.max(), TINY))

    def noise(self, factors: Array) -> float:
        """The noise in what is computed, of rounded activations and weights, over its power."""
        own = factors[self.places]
        step = float((self.high / own).max() - (self.low / own).min()) / ACTIVATION_STEPS
        of_activations = step**2 * float(self.squares @ own**2)
        groups, _, channels = self.largest.shape
        steps = (self.largest * own.reshape(groups, 1, channels)).max(2) / WEIGHT_STEPS
        power = self.taps * (self.power / own**2).reshape(groups, channels).sum(1)
        of_weights = float(np.square(steps).sum(1) @ power)
        return (of_activations + of_weights) / max(float(self.squares @ self.power), TINY)


@dataclass(frozen=True, eq=False)
class _Scaling:
    """A group of values, and what its channels hold."""

    reads: list[_Read]
    least: Array
    most: Array
    """Bounds of the exponents."""

    @staticmethod
    def of(group: ChannelGroup, observations: Mapping[str, Observation]) -> _Scaling | None:
        """None if not enough of it was observed."""

        def seen(value: Value) -> Observation | None:
            found = observations.get(value.name)
            known = found.channels if found is not None else None
            return found if known and known.low.shape == group.values[value].shape else None

        observed = [seen(value) for value in (r.value for r in group.readers)]
        bounded = [seen(bound.value) for bound in group.bounds]
        if any(found is None for found in (*observed, *bounded)):
            return None
        reads = [
            _Read.of(reader, group.values[reader.value], found)
            for reader, found in zip(group.readers, observed, strict=True)
            if found is not None
        ]
        least = np.full(group.size + 1, -MOST_EXPONENT)
        most = np.full(group.size + 1, MOST_EXPONENT)
        most[-1] = least[-1] = 0
        for bound, found in zip(group.bounds, bounded, strict=True):
            assert found is not None
            assert found.channels is not None
            places = group.values[bound.value]
            ends = (found.channels.low, bound.low), (found.channels.high, bound.high)
            parts = [seen / end for seen, end in ends if end and np.isfinite(end)]
            needed = np.ceil(np.log2(np.maximum(np.max(parts, 0), 2.0**-MOST_EXPONENT)))
            np.maximum.at(least, places, needed.astype(np.int64))
            most[places] = 0
        return _Scaling(reads, least, most)

    def best(self) -> Array:
        """The exponents with the least noise expected; zeros if none is much better."""
        none = np.zeros(len(self.least), np.int32)
        tried = [self._exponents(b, strength) for b in BALANCES for strength in STRENGTHS]
        best = min(tried, key=self._noise)
        return best if self._noise(best) < MOST_NOISE * self._noise(none) else none

    def _noise(self, exponents: Array) -> float:
        factors = np.ldexp(1.0, exponents)
        return sum(read.noise(factors) for read in self.reads)

    def _exponents(self, balance: float, strength: float) -> Array:
        """Exponents for which channels divided, and weights multiplied by them, vary less."""
        exponents = equalising_exponents(*self.sizes, balance, strength, above=self.is_bounded)
        return np.clip(exponents, self.least, self.most).astype(np.int32)

    @cached_property
    def sizes(self) -> tuple[Array, Array]:
        """How far each set of channels reaches, and its largest weight."""
        reach, weights = np.zeros(len(self.least)), np.zeros(len(self.least))
        for read in self.reads:
            np.maximum.at(reach, read.places, read.reach)
            np.maximum.at(weights, read.places, read.weights)
        reach[-1] = 0  # what is not scaled
        return reach, weights

    @property
    def is_bounded(self) -> bool:
        """Whether channels can only be scaled up."""
        return not self.most.any()


def equalising_exponents(
    first: Array, second: Array, balance: float = 0.5, strength: float = 1.0, *, above: bool = False
) -> Array:
    """Exponents e for which first / 2^e and second 2^e vary less, but for a common factor.

    `first` is how far each channel reaches, `second` the largest weight that multiplies it. With
    a balance of 1 the first are equal then, with 0 the second, and between both are alike.
    Channels that are always zero, and those that nothing reads, are left alone. The exponent of
    the median is 0, or that of the largest if all others are to be scaled up.
    """
    used = (first > 0) & (second > 0)
    wanted = np.zeros(len(first))
    wanted[used] = balance * np.log2(first[used]) - (1 - balance) * np.log2(second[used])
    middle = (np.max if above else np.median)(wanted[used]) if used.any() else 0.0
    exponents = np.clip(np.rint(strength * (wanted - middle)), -MOST_EXPONENT, MOST_EXPONENT)
    return np.where(used, exponents, 0).astype(np.int32)
