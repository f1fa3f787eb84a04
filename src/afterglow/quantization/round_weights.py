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
_FEW = 8
"""Columns whose errors are handed on one by one."""
_SMALL = 64
"""Matrices of that extent are inverted as they are."""
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

    Scales and offsets are [rows], or with a group size [rows, groups along the depth]. All may
    have more axes before these, for weights that meet inputs of their own.
    """
    *_, rows, depth = weight.shape
    # what matters most is rounded first
    order = np.argsort(-np.diagonal(moments, axis1=-2, axis2=-1), kind="stable")
    damped = np.take_along_axis(_damped(moments, damping), order[..., None], -2)
    damped = np.take_along_axis(damped, order[..., None, :], -1)
    factor = _inverse_factor(damped).astype(np.float32)
    damped = damped.astype(np.float32)
    stored = np.empty(weight.shape, np.int32)
    shared = (scales, offsets) if group_size else (scales[..., None], offsets[..., None])
    for start in range(0, rows, _ROWS):
        part = (..., slice(start, start + _ROWS), slice(None))
        scale, zero = (_spread(x[part], group_size or depth, depth) for x in shared)
        parts = [_ordered(x, order) for x in (weight[part], scale, zero)]
        columns = _Columns(parts[0], parts[1], parts[2], limits)
        columns.round_in_turn(factor)
        for _ in range(sweeps):
            if not columns.round_again(damped):
                break
        places = np.broadcast_to(order[..., None, :], stored[part].shape)
        np.put_along_axis(stored[part], places, columns.stored.swapaxes(-2, -1), -1)
    return stored


class _Columns:
    """Weights in the course of rounding, [..., depth, rows], so that a column lies together."""

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
        scale, offset = self.scales[..., place, :], self.offsets[..., place, :]
        integers = to_integers(wanted, scale, offset, self.limits)
        self.stored[..., place, :] = integers
        return np.asarray((integers - offset) * scale)

    def round_in_turn(self, factor: Array) -> None:
        """Round column by column; those that follow make up for the error as well as they can."""
        wanted = self.weight.copy()
        errors = np.empty_like(wanted)

        def round_one(place: int, stop: int) -> None:
            error = wanted[..., place, :] - self.rounded(place, wanted[..., place, :])
            error /= factor[..., place, place, None]
            ahead = factor[..., place, place + 1 : stop, None]
            wanted[..., place + 1 : stop, :] -= ahead * error[..., None, :]
            errors[..., place, :] = error

        def hand_on(done: slice, rest: slice) -> None:
            ahead = factor[..., done, rest].swapaxes(-2, -1)
            wanted[..., rest, :] -= ahead @ errors[..., done, :]

        _by_halves(0, wanted.shape[-2], round_one, hand_on)

    def round_again(self, moments: Array) -> bool:
        """Round each column for the least error, all others being as they are; was there less?"""
        before = self.stored.copy()
        real = np.asarray((self.stored - self.offsets) * self.scales, np.float32)
        slope = moments @ (self.weight - real)
        changes = np.empty_like(real)

        def round_one(place: int, stop: int) -> None:
            old = real[..., place, :]
            wanted = old + slope[..., place, :] / moments[..., place, place, None]
            change = self.rounded(place, wanted) - old
            ahead = moments[..., place + 1 : stop, place, None]
            slope[..., place + 1 : stop, :] -= ahead * change[..., None, :]
            changes[..., place, :] = change

        def hand_on(done: slice, rest: slice) -> None:
            slope[..., rest, :] -= moments[..., rest, done] @ changes[..., done, :]

        _by_halves(0, real.shape[-2], round_one, hand_on)
        return not np.array_equal(before, self.stored)


def _by_halves(
    start: int,
    stop: int,
    step: Callable[[int, int], None],
    hand_on: Callable[[slice, slice], None],
) -> None:
    """Do all steps in turn, each with those that follow it up to an end.

    Few of these follow at once: what a half did is handed on to the other as one product.
    """
    if stop - start <= _FEW:
        for place in range(start, stop):
            step(place, stop)
        return
    middle = (start + stop) // 2
    _by_halves(start, middle, step, hand_on)
    hand_on(slice(start, middle), slice(middle, stop))
    _by_halves(middle, stop, step, hand_on)


def _spread(part: Array, group_size: int, depth: int) -> Array:
    """Scales or offsets of each weight, [..., rows, depth]."""
    return np.repeat(part, group_size, -1)[..., :depth]


def _ordered(x: Array, order: Array) -> Array:
    """Columns in an order, [..., depth, rows]."""
    places = np.broadcast_to(order[..., None], x.swapaxes(-2, -1).shape)
    found = np.take_along_axis(x.swapaxes(-2, -1), places, -2)
    return np.ascontiguousarray(found, np.float32)


def _damped(moments: Array, damping: float) -> Array:
    mean = np.diagonal(moments, axis1=-2, axis2=-1).mean(-1)[..., None, None]
    return np.asarray(moments + np.where(mean > 0, damping * mean, 1) * np.eye(moments.shape[-1]))


def _inverse_factor(moments: Array) -> Array:
    """The upper triangular U with UT U = the inverse of the moments."""
    flipped = np.linalg.cholesky(moments[..., ::-1, ::-1])  # moments = R RT, R upper triangular
    return _triangular_inverse(flipped[..., ::-1, ::-1])


def _triangular_inverse(upper: Array) -> Array:
    """The inverse of an upper triangular matrix, by halves: a third of the work of any matrix."""
    size = upper.shape[-1]
    if size <= _SMALL:
        return np.linalg.inv(upper)
    half = size // 2
    low, high = slice(None, half), slice(half, None)
    inverse = np.zeros_like(upper)
    inverse[..., low, low] = _triangular_inverse(upper[..., low, low])
    inverse[..., high, high] = _triangular_inverse(upper[..., high, high])
    between = upper[..., low, high] @ inverse[..., high, high]
    inverse[..., low, high] = -inverse[..., low, low] @ between
    return inverse
