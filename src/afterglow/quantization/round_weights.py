"""Rounding of weights that keeps the results of their layer, instead of each weight.

Rows of a weight [rows, depth] meet inputs x with second moments H = E[x xT]. The mean squared
error of the results is the sum of d H dT over the rows d of the rounding error, so that the error
of one weight can make up for that of others whose inputs are correlated with its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from afterglow.quantization.weights import to_integers
from afterglow.types import Array

DAMPING = 0.01
"""What is added to the moments' diagonal, as a part of its mean: samples are never all there is."""
SWEEPS = 1
"""How often all the weights are rounded again, each with all others as they are by then."""
EXPONENTS = np.linspace(0, 1, 21)
"""Of mean magnitudes: what a search for scales of inputs tries."""
_BLOCK = 64
"""Columns whose errors are handed to the rest at once."""
_ROWS = 2048
"""Rows that are rounded at once, as each takes memory."""


def second_moments(x: Array) -> Array:
    """E[x xT] of inputs [samples, depth]."""
    wide = x.astype(np.float64)
    return np.asarray(wide.T @ wide / max(1, len(x)))


def output_error(difference: Array, moments: Array) -> float:
    """The mean squared error of all results together, for weights that differ by [rows, depth]."""
    return float(np.einsum("rd,rd->", difference @ moments, difference))


def round_weights(
    weight: Array,
    moments: Array,
    scales: Array,
    offsets: Array,
    limits: tuple[int, int],
    *,
    group_size: int = 0,
    damping: float = DAMPING,
    sweeps: int = SWEEPS,
) -> Array:
    """Integers (i32) for a weight [rows, depth] with little error of the results.

    Scales and offsets are [rows], or with a group size [rows, groups along the depth].
    """
    rows, depth = weight.shape
    order = np.argsort(-np.diagonal(moments), kind="stable")  # what matters most is rounded first
    damped = _damped(moments, damping)[np.ix_(order, order)]
    factor = _inverse_factor(damped)
    stored = np.empty((rows, depth), np.int32)
    for start in range(0, rows, _ROWS):
        part = slice(start, start + _ROWS)
        columns = _Columns(
            np.ascontiguousarray(weight[part].T[order], np.float64),
            _spread(scales[part], group_size, depth)[order],
            _spread(offsets[part], group_size, depth)[order],
            limits,
        )
        columns.round_in_turn(factor)
        for _ in range(sweeps):
            if not columns.round_again(damped):
                break
        stored[part, order] = columns.stored.T
    return stored


def input_scales(
    weight: Array,
    magnitudes: Array,
    moments: Array,
    quantize: Callable[[Array], Array],
) -> Array:
    """Factors of the depth of a weight [rows, depth], by which its inputs are divided.

    Inputs of large mean magnitude get large factors, so that their weights are rounded finely.
    The exponent of the magnitudes is the one with the least error of the results; `quantize`
    gives the weights that the rounded ones stand for.
    """
    best, least = np.ones(weight.shape[1], np.float32), np.inf
    for exponent in EXPONENTS:
        factors = _normalised(np.maximum(magnitudes, 1e-4 * magnitudes.max(initial=0)), exponent)
        error = output_error(quantize(weight * factors) / factors - weight, moments)
        if error < least:
            best, least = factors, error
    return best


class _Columns:
    """Weights in the course of rounding, [depth, rows], so that a column lies together."""

    def __init__(
        self, weight: Array, scales: Array, offsets: Array, limits: tuple[int, int]
    ) -> None:
        self.weight = weight
        self.scales = scales
        self.offsets = offsets
        self.limits = limits
        self.stored = np.zeros(weight.shape, np.int32)

    def rounded(self, place: int, wanted: Array) -> Array:
        """Store the integers nearest to what is wanted of a column; what they stand for."""
        scale, offset = self.scales[place], self.offsets[place]
        self.stored[place] = to_integers(wanted, scale, offset, self.limits)
        return np.asarray((self.stored[place] - offset) * scale)

    def round_in_turn(self, factor: Array) -> None:
        """Round column by column; those that follow make up for the error as well as they can."""
        wanted = self.weight.copy()
        for start in range(0, len(wanted), _BLOCK):
            stop = min(start + _BLOCK, len(wanted))
            errors = np.empty_like(wanted[start:stop])
            for place in range(start, stop):
                error = wanted[place] - self.rounded(place, wanted[place])
                error /= factor[place, place]
                wanted[place + 1 : stop] -= np.outer(factor[place, place + 1 : stop], error)
                errors[place - start] = error
            wanted[stop:] -= factor[start:stop, stop:].T @ errors

    def round_again(self, moments: Array) -> bool:
        """Round each column for the least error, all others being as they are; was there less?"""
        before = self.stored.copy()
        real = (self.stored - self.offsets) * self.scales
        slope = moments @ (self.weight - real)
        for start in range(0, len(real), _BLOCK):
            stop = min(start + _BLOCK, len(real))
            changes = np.empty_like(real[start:stop])
            for place in range(start, stop):
                wanted = real[place] + slope[place] / moments[place, place]
                changes[place - start] = self.rounded(place, wanted) - real[place]
                slope[place:stop] -= np.outer(moments[place:stop, place], changes[place - start])
            slope[stop:] -= moments[stop:, start:stop] @ changes
        return not np.array_equal(before, self.stored)


def _spread(part: Array, group_size: int, depth: int) -> Array:
    """Scales or offsets of each weight, [depth, rows]."""
    if group_size:
        return np.repeat(part.T, group_size, 0)[:depth]
    return np.broadcast_to(part, (depth, len(part)))


def _damped(moments: Array, damping: float) -> Array:
    mean = float(np.diagonal(moments).mean())
    return np.asarray(moments + (damping * mean or 1.0) * np.eye(len(moments)))


def _inverse_factor(moments: Array) -> Array:
    """The upper triangular U with UT U = the inverse of the moments."""
    flipped = np.linalg.cholesky(moments[::-1, ::-1])  # moments = R RT, with R upper triangular
    return _triangular_inverse(flipped[::-1, ::-1])


def _triangular_inverse(upper: Array) -> Array:
    """The inverse of an upper triangular matrix, by halves: a third of the work of any matrix."""
    size = len(upper)
    if size <= _BLOCK:
        return np.linalg.inv(upper)
    half = size // 2
    inverse = np.zeros_like(upper)
    inverse[:half, :half] = _triangular_inverse(upper[:half, :half])
    inverse[half:, half:] = _triangular_inverse(upper[half:, half:])
    inverse[:half, half:] = -inverse[:half, :half] @ upper[:half, half:] @ inverse[half:, half:]
    return inverse


def _normalised(magnitudes: Array, exponent: float) -> Array:
    """Powers of magnitudes, of which the least and the greatest multiply to 1."""
    powers = np.where(magnitudes > 0, magnitudes, 1.0) ** exponent
    return np.asarray(powers / np.sqrt(powers.max() * powers.min()), np.float32)
