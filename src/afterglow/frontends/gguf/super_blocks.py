"""Formats with blocks of 256 elements, whose scales are numbers of few bits themselves.

Functions take the bytes of blocks, [blocks, bytes]. Numbers are [blocks, 256]; scales and minimums
have one for each group of 16 or 32 neighbours.
"""

from __future__ import annotations

import numpy as np

from afterglow.frontends.gguf.blocks import (
    IQ4_LEVELS,
    halves,
    narrow_signed,
    narrow_unsigned,
    nibbles,
    words,
)
from afterglow.types import Array

_PAIRS = np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
"""Where in a byte each of four numbers of 2 bits begins."""
_SIXTEENTHS = np.array([0, 4], np.uint8).reshape(1, 1, 2, 1)


def _quarters(raw: Array) -> Array:
    """Numbers of 2 bits: each 32 bytes hold 128, first all lowest bits."""
    return (raw.reshape(len(raw), -1, 1, 32) >> _PAIRS & 3).reshape(len(raw), -1)


def _by_bit(raw: Array) -> Array:
    """The bits of 32 bytes: first bit 0 of all of them, then bit 1, and so on."""
    bits = np.unpackbits(raw, axis=1, bitorder="little").reshape(len(raw), 32, 8)
    return bits.transpose(0, 2, 1).reshape(len(raw), 256)


def _half_bytes(raw: Array) -> Array:
    """Numbers of 4 bits: each 32 bytes hold 64, first all low halves."""
    return (raw.reshape(len(raw), -1, 1, 32) >> _SIXTEENTHS & 15).reshape(len(raw), -1)


def _whole(raw: Array, offset: int) -> Array:
    """A float of 16 bits that all of a block shares."""
    return halves(raw, offset, offset + 2).astype(np.float32)


def q2(raw: Array) -> Array:
    """Numbers from 0 to 3."""
    return narrow_unsigned(_quarters(raw[:, 16:80]))


def q2_scales(raw: Array) -> Array:
    """The low halves of the first 16 bytes, by a factor."""
    return np.asarray(_whole(raw, 80) * (raw[:, :16] & 15))


def q2_minimums(raw: Array) -> Array:
    """The high halves, by another factor."""
    return np.asarray(-(_whole(raw, 82) * (raw[:, :16] >> 4)))


def q3(raw: Array) -> Array:
    """Numbers from -4 to 3, whose third bits come first."""
    return narrow_signed((_quarters(raw[:, 32:96]) | _by_bit(raw[:, :32]) << 2) - 4)


def q3_scales(raw: Array) -> Array:
    """Numbers of 6 bits from -32: four low bits, then two high bits."""
    low = nibbles(raw[:, 96:104])
    high = (raw[:, None, 104:108] >> _PAIRS[0] & 3).reshape(len(raw), 16)
    return np.asarray(_whole(raw, 108) * ((low | high << 4).astype(np.int8) - 32))


def _sixes(raw: Array) -> tuple[Array, Array]:
    """Eight scales and eight minimums of 6 bits, in 12 bytes."""
    first, second, third = raw[:, 4:8], raw[:, 8:12], raw[:, 12:16]
    scales = (first & 63, third & 15 | first >> 6 << 4)
    minimums = (second & 63, third >> 4 | second >> 6 << 4)
    return np.concatenate(scales, 1), np.concatenate(minimums, 1)


def scales_of_six(raw: Array) -> Array:
    """Scales of 6 bits, by a factor."""
    return _whole(raw, 0) * _sixes(raw)[0]


def minimums_of_six(raw: Array) -> Array:
    """Minimums of 6 bits, by another factor."""
    return -(_whole(raw, 2) * _sixes(raw)[1])


def q4(raw: Array) -> Array:
    """Numbers from 0 to 15."""
    return narrow_unsigned(_half_bytes(raw[:, 16:]))


def q5(raw: Array) -> Array:
    """Numbers from 0 to 31, whose fifth bits come first."""
    return np.asarray(_half_bytes(raw[:, 48:]) | _by_bit(raw[:, 16:48]) << 4)


def q6(raw: Array) -> Array:
    """Numbers from -32 to 31: four low bits, then two high bits."""
    low = raw[:, :128].reshape(len(raw), 2, 1, 64) >> _SIXTEENTHS & 15
    high = _quarters(raw[:, 128:192])
    return ((low.reshape(len(raw), 256) | high << 4) - 32).view(np.int8)


def q6_scales(raw: Array) -> Array:
    """Signed bytes, by a factor."""
    return _whole(raw, 208) * raw[:, 192:208].view(np.int8)


def iq4_xs(raw: Array) -> Array:
    """Numbers of levels: each 16 bytes hold 32."""
    return IQ4_LEVELS[nibbles(raw[:, 8:].reshape(-1, 16))].reshape(len(raw), 256)


def iq4_xs_scales(raw: Array) -> Array:
    """Numbers of 6 bits from -32: two high bits, then four low bits."""
    shifts = np.arange(0, 16, 2, dtype=np.uint16)
    high = (words(raw, 2, 4, "<u2") >> shifts & 3).astype(np.uint8)
    low = np.stack((raw[:, 4:8] & 15, raw[:, 4:8] >> 4), 2).reshape(len(raw), 8)
    return np.asarray(_whole(raw, 0) * ((low | high << 4).astype(np.int8) - 32))
