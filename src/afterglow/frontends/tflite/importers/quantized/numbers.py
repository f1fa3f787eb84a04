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
    return np.asarray(np.minimum(high, (1 << bits) - 1))


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


_EXP_FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-1/4), exp(-1/2), exp(-1), exp(-2), … in 31 bits."""


def negative_exp(x: Array, bits: int) -> Array:
    """exp of what is not above zero, with 31 bits; x has so many bits above one."""
    below = HIGH_BITS - bits
    quarter = 1 << (below - 2)
    rest = (x & (quarter - 1)) - quarter
    result, left = _exp_of_quarter(rest << bits), rest - x
    for place, factor in zip(range(-2, bits), _EXP_FACTORS, strict=False):
        chosen = left & (1 << (below + place))
        result = np.where(chosen, high_product(result, factor), result)
    return np.where(x == 0, (1 << HIGH_BITS) - 1, result)


def _exp_of_quarter(x: Array) -> Array:
    """exp from -1/4 to 0: four terms of the series about -1/8."""
    middle, third = 1895147668, 715827883
    x = x + (1 << 28)
    square = high_product(x, x)
    cube, fourth = high_product(square, x), high_product(square, square)
    terms = high_product(divided(fourth, 2) + cube, third) + square
    return middle + high_product(x + divided(terms, 1), middle)
