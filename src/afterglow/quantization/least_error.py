"""The range with the least mean squared error of rounding and saturation."""

from __future__ import annotations

import numpy as np

from afterglow.quantization.distribution import Distribution
from afterglow.quantization.scheme import Scheme, fit
from afterglow.types import Array, DType

SHRINKAGE = 2.0 ** -np.arange(0, 10, 0.1)
"""Parts of the observed range that are tried first."""
NEARBY = 2.0 ** np.linspace(-0.1, 0.1, 7)
"""Multiples of the best of these that are tried then."""
CONTENDERS = 24
"""How many ranges have their error computed exactly, of those with the least estimates."""
BINS = 1024
"""Bins in which errors are summed up."""


def least_error_range(
    distribution: Distribution, scheme: Scheme, dtype: DType
) -> tuple[float, float]:
    """The range, within that of the numbers, for which storing them has the least error."""
    if not distribution.power:
        return float(distribution.edges[0]), float(distribution.edges[-1])
    search = _Search(distribution.merged(BINS), scheme, dtype)
    lows, highs = search.scaled(*search.ends, SHRINKAGE)
    contenders = np.argsort(search.estimates(lows, highs))[:CONTENDERS]
    contenders = np.append(contenders, 0)  # the whole range
    best = search.best(lows[contenders], highs[contenders])
    return search.best(*search.scaled(*best, NEARBY))


class _Search:
    """Compares ranges of one distribution."""

    def __init__(self, distribution: Distribution, scheme: Scheme, dtype: DType) -> None:
        self.distribution = distribution
        self.scheme = scheme
        self.limits = dtype.limits
        self.ends = min(distribution.edges[0], 0.0), max(distribution.edges[-1], 0.0)

    def scaled(self, low: float, high: float, factors: Array) -> tuple[Array, Array]:
        """Ranges like one, with both ends scaled, within that of the numbers."""
        if self.scheme is Scheme.ASYMMETRIC:
            pairs = np.meshgrid(*(end * factors if end else np.zeros(1) for end in (low, high)))
            lows, highs = (ends.ravel() for ends in pairs)
        else:
            highs = max(-low, high) * factors
            lows = -highs
        return np.maximum(lows, self.ends[0]), np.minimum(highs, self.ends[1])

    def estimates(self, lows: Array, highs: Array) -> Array:
        """Roughly the errors: all that is inside is spread evenly over steps."""
        numbers = self.distribution
        scales, _ = fit(lows, highs, self.scheme, self.limits)
        rounded = (numbers.counts - numbers.zeros).sum() * scales.astype(np.float64) ** 2 / 12
        below, above = self._clipped()
        return np.asarray(
            rounded + np.interp(lows, numbers.edges, below) + np.interp(highs, numbers.edges, above)
        )

    def best(self, lows: Array, highs: Array) -> tuple[float, float]:
        """The range with the least error."""
        scales, offsets = fit(lows, highs, self.scheme, self.limits)
        place = np.argmin(self.distribution.squared_errors(scales, offsets, self.limits))
        return float(lows[place]), float(highs[place])

    def _clipped(self) -> tuple[Array, Array]:
        """The errors of what is clipped below, and above, each edge."""
        edges, counts = self.distribution.edges, self.distribution.counts
        middles = (edges[:-1] + edges[1:]) / 2
        moments = [
            np.concatenate([[0.0], np.cumsum(counts * middles**power)]) for power in range(3)
        ]
        below = moments[0] * edges**2 - 2 * moments[1] * edges + moments[2]
        rest = [moment[-1] - moment for moment in moments]
        above = rest[0] * edges**2 - 2 * rest[1] * edges + rest[2]
        return below, above
