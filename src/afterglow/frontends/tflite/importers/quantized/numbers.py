"""TFLite's arithmetic in fixed point on arrays: for tables, which are computed when importing."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.tflite.importers.quantized.scaling import multipliers
from afterglow.ops.fixed_point import HIGH_BITS
from afterglow.types import Array


def away(x: Array) -> Array:
    """Floats rounded to whole numbers, halves away from zero."""
    half = np.nextafter(x.dtype.type(0.5), x.dtype.type(0))
    return np.asarray(np.trunc(x + np.copysign(half, x)))


def high_product(a: Array, b: Array | int, bits: int = HIGH_BITS) -> Array:
    """The product of two numbers over 2^bits, rounded, halves up; saturated."""
    product = np.asarray(a, np.int64) * b
    high = (product + (1 << (bits - 1))) >> bits
    return np.minimum(high, (1 << bits) - 1)


def divided(x: Array, bits: int) -> Array:
    """x / 2^bits, rounded, halves away from zero."""
    wide, mask = np.asarray(x, np.int64), (1 << bits) - 1
    return np.asarray((wide >> bits) + ((wide & mask) > (mask >> 1) + (wide < 0)))


def scaled(x: Array, ratio: float) -> Array:
    """x times a ratio, by its multiplier of 31 bits and a shift."""
    multiplier, exponent = (int(part) for part in multipliers(ratio))
    return scaled_by(x, multiplier, exponent)


def scaled_by(x: Array, multiplier: int, exponent: int) -> Array:
    """x times multiplier 2^(exponent - 31); shifted to the left before, or to the right after."""
    shifted = np.asarray(x, np.int64) << max(exponent, 0)
    return divided(high_product(shifted, multiplier), max(-exponent, 0))


def inverse_root(number: int) -> tuple[int, int]:
    """The multiplier of 31 bits and the exponent that 1 / sqrt(number) is, by Newton's method."""
    if number <= 1:
        return (1 << HIGH_BITS) - 1, 0
    shift = 11
    while number >= 1 << 29:
        number, shift = number // 4, shift + 1
    pairs = (32 - number.bit_length() - 1) // 2 - 1
    number, shift = number << (2 * pairs), shift - pairs
    halved = divided(np.array(number >> 1), 1)
    x = np.array(1 << 28)
    for _ in range(5):
        cube = high_product(high_product(x, x), x) << 6
        difference = high_product(x, (1 << 28) + (1 << 27)) - high_product(halved, cube)
        x = difference << 3
    root = int(high_product(x, 1518500250))
    return (root << -shift, 0) if shift < 0 else (root, -shift)
