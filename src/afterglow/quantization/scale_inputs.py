"""Scaling of what products read, so that the weights that matter most are rounded finely.

Channels of large magnitude are divided by a factor, which the weights that multiply them take: of
neighbours that share a scale, these then have more of the steps. What computes the channels
divides them for free: the parameters of a norm, or the weights and the bias of another layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from afterglow.graph import Function
from afterglow.ops.linear import MatMul
from afterglow.passes import Pass
from afterglow.quantization.channels import ChannelGroup, channel_groups, divide_channels
from afterglow.quantization.layers import weight_rows
from afterglow.quantization.moments import HALVES, Blocks, InputMoments, row_errors
from afterglow.quantization.rounding import Rounding
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

EXPONENTS = np.linspace(0.1, 1, 10)
"""Of magnitudes: what a search for factors tries."""
MOST_ROWS = 256
"""Rows of a weight by which factors are chosen."""
LEAST_GAIN = 0.98
"""The error on the other half of the runs, at most, as a part of that without factors."""
LEAST_MAGNITUDE = 1e-4
"""As a part of the largest: channels with less are taken to have as much."""

Quantize = Callable[[Array], Array]
"""The weights [rows, depth] that rounded ones stand for."""


class ScaleInputs(Pass):
    """Channels that products read are divided by factors with which their weights round better.

    Magnitudes come from what layers read on one half of the samples; factors that do not help on
    the other half are not used. Works on the main function.
    """

    name = "scale-inputs"

    def __init__(self, quantize: Quantize, rounding: Rounding) -> None:
        self.quantize = quantize
        self.rounding = rounding
        self.divided: dict[str, Array] = {}
        """What the channels that a layer reads were divided by, by its name."""

    def run(self, function: Function) -> bool:
        """See the class."""
        self.divided.clear()
        if function is not function.module.main:
            return False
        for group in channel_groups(function):
            factors = self._factors(group)
            if (factors != 1).any() and divide_channels(function, group, factors):
                for reader in group.readers:
                    self.divided[reader.node.name] = factors[group.values[reader.value]]
        return bool(self.divided)

    def _factors(self, group: ChannelGroup) -> Array:
        """Factors of the sets of a group, and 1 for what is not scaled; ones if none helps."""
        if group.bounds:
            return np.ones(1, np.float32)
        names = [reader.node.name for reader in group.readers]
        weights = [reader.constant.data for reader in group.readers]
        return self.rounding.remembered(names, weights, lambda: self._find(group))

    def _find(self, group: ChannelGroup) -> Array:
        products = [*self._products(group)]
        none = np.ones(group.size + 1, np.float32)
        if not products:
            return none
        magnitudes = np.zeros(group.size + 1)
        for product in products:
            np.maximum.at(magnitudes, product.places, product.magnitudes)
        errors = [_Errors(products, self.quantize, half, none) for half in range(HALVES)]
        best = best_factors(magnitudes[:-1], lambda found: errors[0](np.append(found, none[-1])))
        found = np.append(best, none[-1])
        return found if errors[1](found) < LEAST_GAIN * errors[1](none) else none

    def _products(self, group: ChannelGroup) -> Iterator[_Product]:
        """The products of a group whose weights are rounded."""
        for reader in group.readers:
            if not isinstance(reader.node.op, MatMul):
                continue
            seen = self.rounding.moments.get(reader.node.name)
            places = group.values[reader.value]
            if seen is not None and seen.depth == len(places):
                (rows,) = weight_rows(reader.node.op, reader.constant.data)
                yield _Product(rows[:: -(-len(rows) // MOST_ROWS)], places, seen)


def best_factors(magnitudes: Array, error: Callable[[Array], float]) -> Array:
    """Powers of magnitudes, one for each channel, that have the least error; or ones."""
    best = np.ones(len(magnitudes), np.float32)
    least = error(best)
    limited = np.maximum(magnitudes, LEAST_MAGNITUDE * magnitudes.max(initial=0))
    for exponent in EXPONENTS:
        factors = _powers(limited, exponent)
        found = error(factors)
        if found < least:
            best, least = factors, found
    return best


def _powers(magnitudes: Array, exponent: float) -> Array:
    """Powers of magnitudes, of which the least and the greatest multiply to 1."""
    powers = np.where(magnitudes > 0, magnitudes, 1.0) ** exponent
    return np.asarray(powers / np.sqrt(powers.max() * powers.min()), np.float32)


@dataclass(frozen=True, eq=False)
class _Product:
    """Some rows of the weight of a product, the sets of its channels, and what it reads."""

    rows: Array
    places: Array
    seen: InputMoments

    @property
    def magnitudes(self) -> Array:
        """How large each channel is, on one half of the runs."""
        powers = [np.diagonal(block[0]) for block in self.seen.half(0)]
        return np.asarray(np.sqrt(np.concatenate(powers)))


class _Errors:
    """The error of products on one half of the runs, each as a part of that without factors."""

    def __init__(
        self, products: list[_Product], quantize: Quantize, half: int, none: Array
    ) -> None:
        self.products = [(product, product.seen.half(half)) for product in products]
        self.quantize = quantize
        self.plain = [self._of(*each, none) for each in self.products]

    def __call__(self, factors: Array) -> float:
        """With factors for the sets of channels."""
        parts = zip(self.products, self.plain, strict=True)
        return sum(self._of(*each, factors) / plain for each, plain in parts if plain)

    def _of(self, product: _Product, blocks: Blocks, factors: Array) -> float:
        own = factors[product.places]
        difference = self.quantize(product.rows * own) / own - product.rows
        return float(row_errors(difference[None], blocks).sum())
