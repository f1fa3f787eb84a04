"""Formats with blocks of 32 elements: a scale, and numbers of few bits.

Functions take the bytes of blocks, [blocks, bytes], and return numbers [blocks, 32], or scales.
"""

from __future__ import annotations

import numpy as np

from afterglow.frontends.language.weights import Unpack
from afterglow.types import Array
from afterglow.types.dtype import i4, u4

IQ4_LEVELS = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)
"""What the 16 numbers of IQ4_NL and IQ4_XS stand for."""
FP4_LEVELS = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
"""Twice what the 16 numbers of MXFP4 stand for."""


def half(offset: int) -> Unpack:
    """A float of 16 bits at an offset of each block."""
    return lambda raw: halves(raw, offset, offset + 2)


def halves(raw: Array, start: int, stop: int) -> Array:
    """Floats of 16 bits in a part of each block."""
    return np.ascontiguousarray(raw[:, start:stop]).view("<f2")


def words(raw: Array, start: int, stop: int, dtype: str) -> Array:
    """Integers in a part of each block."""
    return np.ascontiguousarray(raw[:, start:stop]).view(dtype)


def nibbles(raw: Array) -> Array:
    """The low halves of bytes, then the high halves."""
    return np.concatenate((raw & 15, raw >> 4), -1)


def narrow_signed(numbers: Array) -> Array:
    """Signed bytes as numbers of 4 bits."""
    return numbers.view(np.int8).astype(i4.numpy)


def narrow_unsigned(numbers: Array) -> Array:
    """Bytes as numbers of 4 bits."""
    return numbers.astype(u4.numpy)


def _with_fifth_bit(low: Array, raw: Array, offset: int) -> Array:
    """Numbers of 4 bits with a fifth each, from a word of 32 bits."""
    fifth = np.unpackbits(raw[:, offset : offset + 4], axis=1, bitorder="little")
    return np.asarray(low | fifth << 4)


def q4_0(raw: Array) -> Array:
    """A scale, then numbers from -8 to 7."""
    return narrow_signed(nibbles(raw[:, 2:]) - 8)


def q4_1(raw: Array) -> Array:
    """A scale, a minimum, then numbers from 0 to 15."""
    return narrow_unsigned(nibbles(raw[:, 4:]))


def q5_0(raw: Array) -> Array:
    """A scale, fifth bits, then low bits: numbers from -16 to 15."""
    return (_with_fifth_bit(nibbles(raw[:, 6:]), raw, 2) - 16).view(np.int8)


def q5_1(raw: Array) -> Array:
    """A scale, a minimum, fifth bits, then low bits: numbers from 0 to 31."""
    return _with_fifth_bit(nibbles(raw[:, 8:]), raw, 4)


def q8_0(raw: Array) -> Array:
    """A scale, then bytes."""
    return raw[:, 2:].view(np.int8)


def iq4_nl(raw: Array) -> Array:
    """A scale, then numbers of levels."""
    return IQ4_LEVELS[nibbles(raw[:, 2:])]


def mxfp4(raw: Array) -> Array:
    """An exponent, then floats of 4 bits, doubled."""
    return FP4_LEVELS[nibbles(raw[:, 1:])]


def mxfp4_scales(raw: Array) -> Array:
    """Half of 2 to an exponent with a bias of 127."""
    exponents = raw[:, 0].astype(np.int32) - 128
    return np.ldexp(np.float32(1), exponents)
