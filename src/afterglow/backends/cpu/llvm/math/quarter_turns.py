"""Taking whole quarter turns out of an angle, of any size.

Small angles lose n * pi/2 in three words (Cody and Waite). For large ones that would need a
hundred words and more of pi; but of 4/pi * x only the fraction of a full turn matters, so that a
window of the bits of 2/pi, chosen by the exponent of x, is enough (Payne and Hanek).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

from afterglow.backends.cpu.llvm.emitter import (
    Pointer,
    Value,
    any_lane,
    convert,
    fma,
    gather,
    reinterpret,
    select,
)
from afterglow.backends.cpu.llvm.emitter.arithmetic import fuses
from afterglow.backends.cpu.llvm.emitter.function import Emitter
from afterglow.backends.cpu.llvm.math.double_word import (
    DoubleWord,
    ordered_sum,
    two_product,
    two_sum,
)
from afterglow.backends.cpu.llvm.math.float_encoding import number_of, pi, whole_of
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32, i32, i64, u64

_LEADING_ZEROS = 64
"""Zero bits before those of 2/pi in the table, so that every window begins inside it."""


@dataclass(frozen=True)
class Angle:
    """An angle as `quarters` quarter turns, of which only the last two bits count, and the rest."""

    quarters: Value
    rest: DoubleWord

    @property
    def parts(self) -> list[Value]:
        """The quarters and the two words of the rest."""
        return [self.quarters, self.rest.high, self.rest.low]


def reduce_angle(size: Value) -> Angle:
    """Take the quarter turns out of an angle that is not negative; |rest| <= pi / 4 or so.

    The slow path runs only if a lane needs it; the other lanes give the same on both paths.
    """
    emitter = size.code
    assert isinstance(emitter, Emitter)
    near = _reduce_small(size)
    limit = 1.0e5 if size.dtype is f32 else 1.0e9
    large = size > limit

    def slow() -> list[Value]:
        far = _call_reduce_large(emitter, select(large, size, limit))  # none looks before the table
        pairs = zip(far.parts, near.parts, strict=True)
        return [select(large, there, here) for there, here in pairs]

    quarters, high, low = emitter.branch(any_lane(large), slow, lambda: near.parts, likely=False)
    return Angle(quarters, DoubleWord(high, low))


def _call_reduce_large(emitter: Emitter, size: Value) -> Angle:
    """The slow path as a function of its own, written once for all angles of a module."""
    dtype, bits, lanes = size.dtype, number_of(size).bits, size.lanes

    def write(inner: Emitter) -> None:
        angle = _reduce_large(inner, inner.argument("size", dtype, lanes))
        inner.pointer("quarters", bits).store(angle.quarters)
        rest = inner.pointer("rest", dtype)
        rest.store(angle.rest.high)
        rest.store(angle.rest.low, lanes)

    function = emitter.module.helper(f"reduce_large_angle_{dtype}_{lanes}", write)
    quarters, rest = emitter.scratch(bits, lanes), emitter.scratch(dtype, 2 * lanes)
    emitter.run(function, size, quarters, rest)
    words = DoubleWord(rest.load(0, lanes), rest.load(lanes, lanes))
    return Angle(quarters.load(0, lanes), words)


def _reduce_small(size: Value) -> Angle:
    number = number_of(size)
    rounded = fma(size, number.nearest(2 / pi(128)), number.rounder)
    count = rounded - number.rounder
    first, second, third = number.words(pi(256) / 2, 3)
    if fuses(size):
        rest = fma(count, -first, size)  # exact, as the two nearly cancel
        carried = size.like(0.0)
    else:
        product = two_product(count, size.like(first))
        total = two_sum(size - product.high, -product.low)
        rest, carried = total.high, total.low
    product = two_product(count, size.like(second))
    total = two_sum(rest, -product.high)
    low = fma(count, -third, carried + (total.low - product.low))
    return Angle(whole_of(rounded), ordered_sum(total.high, low))


def _reduce_large(emitter: Emitter, size: Value) -> Angle:
    """The fraction of size * 2/pi / 4, as a fixed-point number of `count` words of 32 bits."""
    number = number_of(size)
    single = size.dtype is f32
    count = 3 if single else 6
    bits = convert(reinterpret(size, number.bits), i64)
    fraction = bits & ((1 << number.fraction_bits) - 1)
    mantissa = convert(fraction | (1 << number.fraction_bits), u64)
    exponent = (bits >> number.fraction_bits) - (number.bias + number.fraction_bits)
    window = _window(emitter, exponent - 2 + _LEADING_ZEROS, count)
    limbs = [mantissa] if single else [mantissa & 0xFFFFFFFF, mantissa >> 32]
    turns = _product(limbs, window)
    quarters = turns[0] >> 30
    shifted = _shifted(turns, 2)
    up = shifted[0] >> 31  # a rest of half a quarter or more counts as a negative one
    rest = _fixed_to_float(shifted, size)
    half_pi = DoubleWord.constant(size, pi(256) / 2)
    undefined = size - size  # NaN of infinity, else nothing
    rest = DoubleWord(rest.high + undefined, rest.low) * half_pi
    return Angle(convert(quarters + up, number.bits), rest)


def _window(emitter: Emitter, start: Value, count: int) -> list[Value]:
    """Words of 32 bits of 2/pi, from a bit on, each in 64 bits; the highest first."""
    word, shift = convert(start >> 5, i32), convert(start & 31, u64)
    table = _table(emitter)
    words = [convert(gather(table, word + place), u64) for place in range(count + 1)]
    return [(((high << 32) | low) << shift) >> 32 for high, low in pairwise(words)]


def _table(emitter: Emitter) -> Pointer:
    bits = 1024 + 8 * 32 + _LEADING_ZEROS
    scaled = int(2 / pi(2 * bits) * Fraction(2) ** (bits - _LEADING_ZEROS))
    words = [(scaled >> (bits - 32 * (place + 1))) & 0xFFFFFFFF for place in range(bits // 32)]
    return emitter.module.table(emitter, "two_over_pi", np.array(words, np.uint32))


def _product(limbs: list[Value], window: list[Value]) -> list[Value]:
    """The last words of the product of two numbers, which are given by words of 32 bits.

    `limbs` begins with the lowest word; the window and the result begin with the highest.
    """
    count = len(window)
    columns: list[list[Value]] = [[] for _ in range(count + 1)]
    for low, limb in enumerate(limbs):
        for high, word in enumerate(reversed(window)):
            if low + high < count:
                product = limb * word
                columns[low + high].append(product & 0xFFFFFFFF)
                columns[low + high + 1].append(product >> 32)
    result: list[Value] = []
    carry = window[0].like(0)
    for column in columns[:count]:
        total = carry
        for term in column:
            total = total + term
        result.append(total & 0xFFFFFFFF)
        carry = total >> 32
    return result[::-1]


def _shifted(words: list[Value], bits: int) -> list[Value]:
    """All words moved up; what leaves the highest one is lost."""
    pairs = zip(words, [*words[1:], words[0].like(0)], strict=True)
    return [((high << bits) | (low >> (32 - bits))) & 0xFFFFFFFF for high, low in pairs]


def _fixed_to_float(words: list[Value], like: Value) -> DoubleWord:
    """A signed fixed-point number between -1/2 and 1/2, in two words."""
    top = convert((words[0] << 32) | words[1], i64)
    near = convert(top, like.dtype)
    left = convert(top - convert(near, i64), like.dtype)
    total = two_sum(near * 2.0**-64, left * 2.0**-64)
    if len(words) < 4:
        return total
    further = convert((words[2] << 32) | words[3], like.dtype) * 2.0**-128
    return ordered_sum(total.high, total.low) + DoubleWord(further, like.like(0.0))
