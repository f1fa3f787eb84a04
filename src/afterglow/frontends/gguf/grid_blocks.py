"""Formats with blocks of 256 elements that number points of a grid, with signs apart.

Functions take the bytes of blocks, [blocks, bytes]. Numbers are [blocks, 256]; scales have one for
each group of 16 or 32 neighbours.
"""

from __future__ import annotations

import numpy as np

from afterglow.frontends.gguf.blocks import halves, words
from afterglow.frontends.gguf.grids import grid
from afterglow.types import Array

_EVEN_SIGNS = np.array([number | number.bit_count() % 2 << 7 for number in range(128)], np.uint8)
"""Eight signs of which seven are stored: an even number of them is negative."""
_SEVENTHS = np.arange(0, 28, 7, dtype=np.uint32)


def _points(name: str, indices: Array) -> Array:
    """The coordinates of points, one after the other."""
    return grid(name)[indices].reshape(len(indices), 256)


def _signed(numbers: Array, signs: Array) -> Array:
    """Numbers, negative where a bit of the bytes of signs is set."""
    negative = np.unpackbits(signs.reshape(len(numbers), 32), axis=1, bitorder="little")
    return np.where(negative, -numbers, numbers)


def _in_order(low: Array, high: Array) -> Array:
    """What comes first in each byte, then what comes second."""
    return np.stack((low, high), 2).reshape(len(low), -1)


def _whole(raw: Array) -> Array:
    """The float of 16 bits that a block begins with."""
    return halves(raw, 0, 2).astype(np.float32)


def _even_signs(seventh: Array) -> Array:
    """The signs that words of 32 bits hold four times seven of."""
    return np.asarray(_EVEN_SIGNS[seventh[..., None] >> _SEVENTHS & 127])


def iq2_xxs(raw: Array) -> Array:
    """For each 32 elements: four points, then signs and a scale in one word."""
    pairs = words(raw, 2, 66, "<u4").reshape(len(raw), 8, 2)
    indices = np.ascontiguousarray(pairs[..., 0]).view(np.uint8)
    return _signed(_points("IQ2_XXS", indices), _even_signs(pairs[..., 1]))


def iq2_xxs_scales(raw: Array) -> Array:
    """The four highest bits of each second word."""
    scale = words(raw, 2, 66, "<u4")[:, 1::2] >> 28
    return np.asarray(_whole(raw) * (np.float32(0.5) + scale.astype(np.float32)) * np.float32(0.25))


def iq2_xs(raw: Array) -> Array:
    """Points in 9 bits, seven signs behind them."""
    both = words(raw, 2, 66, "<u2")
    return _signed(_points("IQ2_XS", both & 511), _EVEN_SIGNS[both >> 9])


def iq2_xs_scales(raw: Array) -> Array:
    """Halves of the last eight bytes."""
    return _scales_of_four(raw, raw[:, 66:74])


def _scales_of_four(raw: Array, scales: Array) -> Array:
    scale = _in_order(scales & 15, scales >> 4).astype(np.float32)
    return np.asarray(_whole(raw) * (np.float32(0.5) + scale) * np.float32(0.25))


def iq2_s(raw: Array) -> Array:
    """Points in 8 bits, signs, then two high bits of each point."""
    shifts = np.arange(0, 8, 2, dtype=np.uint8)
    high = (raw[:, 66:74, None] >> shifts & 3).reshape(len(raw), 32).astype(np.uint16)
    return _signed(_points("IQ2_S", raw[:, 2:34] | high << 8), raw[:, 34:66])


def iq2_s_scales(raw: Array) -> Array:
    """Halves of the last eight bytes."""
    return _scales_of_four(raw, raw[:, 74:82])


def iq3_xxs(raw: Array) -> Array:
    """Points of four elements, then words of signs and scales."""
    return _signed(_points("IQ3_XXS", raw[:, 2:66]), _even_signs(words(raw, 66, 98, "<u4")))


def iq3_xxs_scales(raw: Array) -> Array:
    """The four highest bits of each word."""
    scale = (words(raw, 66, 98, "<u4") >> 28).astype(np.float32)
    return np.asarray(_whole(raw) * (np.float32(0.5) + scale) * np.float32(0.5))


def iq3_s(raw: Array) -> Array:
    """Points in 8 bits, ninth bits, then signs."""
    ninth = np.unpackbits(raw[:, 66:74], axis=1, bitorder="little").astype(np.uint16)
    return _signed(_points("IQ3_S", raw[:, 2:66] | ninth << 8), raw[:, 74:106])


def iq3_s_scales(raw: Array) -> Array:
    """Odd numbers, of the halves of the last four bytes."""
    scale = _in_order(raw[:, 106:110] & 15, raw[:, 106:110] >> 4)
    return _whole(raw) * (1 + 2 * scale).astype(np.float32)


def iq1_s(raw: Array) -> Array:
    """Eight times a point, shifted by one up or down: for each 32 elements, four points."""
    high = words(raw, 34, 50, "<u2")
    shifts = np.arange(0, 12, 3, dtype=np.uint16)
    third = (high[..., None] >> shifts & 7).reshape(len(raw), 32)
    shift = np.where(high >> 15, -1, 1).astype(np.int8).repeat(32, 1)
    return _points("IQ1", raw[:, 2:34] | third << 8) * np.int8(8) + shift


def iq1_s_scales(raw: Array) -> Array:
    """An eighth of odd numbers of 3 bits."""
    scale = 2 * (words(raw, 34, 50, "<u2") >> 12 & 7) + 1
    return _whole(raw) * scale.astype(np.float32) / 8


def iq1_m(raw: Array) -> Array:
    """As IQ1_S, with a shift for each point."""
    high = _in_order(raw[:, 32:48] & 15, raw[:, 32:48] >> 4)
    shift = np.where(high & 8, -1, 1).astype(np.int8).repeat(8, 1)
    third = (high & 7).astype(np.uint16)
    return _points("IQ1", raw[:, :32] | third << 8) * np.int8(8) + shift


def iq1_m_scales(raw: Array) -> Array:
    """An eighth of odd numbers of 3 bits; the highest bits of all words are the factor."""
    both = words(raw, 48, 56, "<u2")
    parts = (both & 0xF000) >> np.array([12, 8, 4, 0], np.uint16)
    whole = np.bitwise_or.reduce(parts, 1).astype("<u2").view("<f2").astype(np.float32)
    shifts = np.arange(0, 12, 3, dtype=np.uint16)
    scale = (both[..., None] >> shifts & 7).reshape(len(raw), 16)
    return np.asarray(whole[:, None] * (2 * scale + 1).astype(np.float32) / 8)
