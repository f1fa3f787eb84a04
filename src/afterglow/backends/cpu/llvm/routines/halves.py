"""What ARMv6-M has no instructions for: shifts and products of 64 bits, and leading zeros."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Value, convert, select
from afterglow.types.dtype import DType, i32, u32, u64

WORD = 32


def shift_left(x: Value, count: Value) -> Value:
    """x << count, of u64, for a count from 0 to 63."""
    low, high = _halves(x)
    within, beyond = count & (WORD - 1), count >= WORD
    moved = low << within
    carried = (low >> 1) >> ((WORD - 1) - within)
    above = select(beyond, moved, (high << within) | carried)
    return _joined(select(beyond, 0, moved), above, u64)


def shift_right(x: Value, count: Value) -> Value:
    """x >> count, of u64 or i64, whose sign stays, for a count from 0 to 63."""
    low, high = _halves(x)
    within, beyond = count & (WORD - 1), count >= WORD
    kind = i32 if x.dtype.is_signed else u32
    signed = convert(high, kind)
    moved = signed >> convert(within, kind)
    carried = (high << 1) << ((WORD - 1) - within)
    below = select(beyond, convert(moved, u32), (low >> within) | carried)
    rest = (signed >> 1) >> (WORD - 2) if x.dtype.is_signed else signed.like(0)
    above = select(beyond, convert(rest, u32), convert(moved, u32))
    return _joined(below, above, x.dtype)


def multiply(a: Value, b: Value) -> Value:
    """a * b modulo 2^64, by products of 16 bits."""
    (low, high), (other, above) = _halves(a), _halves(b)
    a0, a1, b0, b1 = low & 0xFFFF, low >> 16, other & 0xFFFF, other >> 16
    first, middle, last = a0 * b0, a1 * b0, a1 * b1
    inner = a0 * b1 + (first >> 16) + (middle & 0xFFFF)  # at most 2^32 - 1
    upper = last + (middle >> 16) + (inner >> 16) + low * above + high * other
    return _joined((first & 0xFFFF) | (inner << 16), upper, u64)


def _halves(x: Value) -> tuple[Value, Value]:
    bits = convert(x, u64)
    return convert(bits, u32), convert(bits >> WORD, u32)


def _joined(low: Value, high: Value, dtype: DType) -> Value:
    return convert(convert(low, u64) | (convert(high, u64) << WORD), dtype)


def count_leading_zeros(x: Value) -> Value:
    """How many zero bits of a u32 stand before the first one; of zero, all."""
    count = x.like(WORD)
    for size in (16, 8, 4, 2, 1):
        upper = x >> size
        more = upper > 0
        count, x = select(more, count - size, count), select(more, upper, x)
    return convert(count - x, i32)
