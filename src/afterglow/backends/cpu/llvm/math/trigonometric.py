"""Sine, cosine and tangent, of angles of any size."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Value, absolute, differ, fma, reinterpret, select
from afterglow.backends.cpu.llvm.math.coefficients import COS, SIN
from afterglow.backends.cpu.llvm.math.double_word import DoubleWord, ordered_sum
from afterglow.backends.cpu.llvm.math.float_encoding import number_of
from afterglow.backends.cpu.llvm.math.polynomial import polynomial
from afterglow.backends.cpu.llvm.math.quarter_turns import reduce_angle


def sin(x: Value) -> Value:
    """The sine."""
    angle = reduce_angle(absolute(x))
    swapped = differ(angle.quarters & 1, 0)
    size = select(swapped, _cos_words(angle.rest).high, _sin_words(angle.rest).high)
    return _with_sign_bits(size, x, angle.quarters >> 1)


def cos(x: Value) -> Value:
    """The cosine."""
    angle = reduce_angle(absolute(x))
    swapped = differ(angle.quarters & 1, 0)
    size = select(swapped, _sin_words(angle.rest).high, _cos_words(angle.rest).high)
    return _with_sign_bits(size, x.like(0.0), (angle.quarters + 1) >> 1)


def tan(x: Value) -> Value:
    """The tangent: sine by cosine, both in two words."""
    angle = reduce_angle(absolute(x))
    swapped = differ(angle.quarters & 1, 0)
    sine, cosine = _sin_words(angle.rest), _cos_words(angle.rest)
    above, below = _chosen(swapped, cosine, sine), _chosen(swapped, sine, cosine)
    size = (above / below).high
    return _with_sign_bits(size, x, angle.quarters)


def _sin_words(x: DoubleWord) -> DoubleWord:
    square = x.high * x.high
    bend = x.high * square * polynomial(square, SIN[x.high.dtype])
    return ordered_sum(x.high, fma(x.low, fma(square, -0.5, 1.0), bend))


def _cos_words(x: DoubleWord) -> DoubleWord:
    square = x.high * x.high
    half = square * 0.5
    near = 1.0 - half
    lost = (1.0 - near) - half
    bend = square * square * polynomial(square, COS[x.high.dtype])
    return ordered_sum(near, lost + fma(x.high, -x.low, bend))


def _chosen(condition: Value, then: DoubleWord, otherwise: DoubleWord) -> DoubleWord:
    return DoubleWord(
        select(condition, then.high, otherwise.high), select(condition, then.low, otherwise.low)
    )


def _with_sign_bits(size: Value, sign: Value, odd: Value) -> Value:
    """A number with its sign turned if another is negative, and again if an integer is odd."""
    number = number_of(size)
    width = number.bits.bits
    given = (reinterpret(sign, number.bits) >> (width - 1)) << (width - 1)
    turned = odd << (width - 1)
    return reinterpret(reinterpret(size, number.bits) ^ given ^ turned, size.dtype)
