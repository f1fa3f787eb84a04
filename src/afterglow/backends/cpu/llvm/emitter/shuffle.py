"""Moving lanes about: within a vector, between vectors, and between vectors and scalars."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cpu.llvm.emitter.code import Code
from afterglow.backends.cpu.llvm.emitter.value import Value, unify
from afterglow.backends.cpu.llvm.types import scalar_literal, spell
from afterglow.types.dtype import DType


def shuffle(a: Value, b: Value | None, lanes: Sequence[int]) -> Value:
    """The chosen lanes of `a` and, counted on from them, of `b`; -1 leaves a lane undefined."""
    if len(lanes) == 1:
        source, lane = (a, lanes[0]) if b is None or lanes[0] < a.lanes else (b, lanes[0] - a.lanes)
        return source.lane(lane)
    if a.lanes == 1:
        return vector([a if b is None or lane <= 0 else b for lane in lanes])
    chosen = ", ".join(f"i32 {lane}" if lane >= 0 else "i32 poison" for lane in lanes)
    other = b.typed if b is not None else f"{a.type} poison"
    mask = f"<{len(lanes)} x i32> <{chosen}>"
    return a.derive(f"shufflevector {a.typed}, {other}, {mask}", lanes=len(lanes))


def vector(scalars: Sequence[Value]) -> Value:
    """A vector made of scalars, one a lane."""
    first, lanes = scalars[0], len(scalars)
    if lanes == 1:
        return first
    wide = spell(first.dtype, lanes)
    result = Value(first.code, first.dtype, lanes, "poison")
    for place, scalar in enumerate(scalars):
        result = result.derive(f"insertelement {wide} {result.text}, {scalar.typed}, i64 {place}")
    return result


def constant_vector(code: Code, dtype: DType, numbers: Sequence[float]) -> Value:
    """A constant with a number for each lane."""
    if len(numbers) == 1:
        return Value.of(code, dtype, numbers[0])
    lanes = ", ".join(f"{spell(dtype)} {scalar_literal(dtype, number)}" for number in numbers)
    return Value(code, dtype, len(numbers), f"<{lanes}>")


def insert(into: Value, lane: int | Value, scalar: Value | float) -> Value:
    """The vector with one lane replaced."""
    value = scalar if isinstance(scalar, Value) else Value.of(into.code, into.dtype, scalar)
    if into.lanes == 1:
        return value
    place = lane.typed if isinstance(lane, Value) else f"i64 {lane}"
    return into.derive(f"insertelement {into.typed}, {value.typed}, {place}")


def part(x: Value, start: int, count: int) -> Value:
    """Neighbouring lanes."""
    if start == 0 and count == x.lanes:
        return x
    return shuffle(x, None, range(start, start + count))


def concat(*parts: Value) -> Value:
    """The lanes of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    low, high = concat(*parts[:middle]), concat(*parts[middle:])
    return _join(low, high)


def _join(low: Value, high: Value) -> Value:
    total = low.lanes + high.lanes
    if low.lanes == high.lanes:
        return shuffle(low, high, range(total)) if low.lanes > 1 else vector([low, high])
    # Operands of a shuffle are of one length: lengthen the shorter one.
    wide = max(low.lanes, high.lanes)
    low, kept = _lengthened(low, wide), low.lanes
    chosen = [*range(kept), *range(wide, wide + total - kept)]
    return shuffle(low, _lengthened(high, wide), chosen)


def _lengthened(x: Value, lanes: int) -> Value:
    if x.lanes == lanes:
        return x
    if x.lanes == 1:
        return x.splat(lanes)
    return shuffle(x, None, [*range(x.lanes), *[-1] * (lanes - x.lanes)])


def reverse(x: Value) -> Value:
    """The lanes in reverse."""
    return shuffle(x, None, range(x.lanes - 1, -1, -1))


def interleave(a: Value, b: Value) -> Value:
    """a0 b0 a1 b1 …, twice as many lanes."""
    a, b = unify(a, b)
    return shuffle(a, b, [lane + from_b for lane in range(a.lanes) for from_b in (0, a.lanes)])


def deinterleave(x: Value, count: int = 2) -> list[Value]:
    """The lanes dealt out to `count` vectors: every count-th one, from each start."""
    return [shuffle(x, None, range(start, x.lanes, count)) for start in range(count)]


def transpose(rows: Sequence[Value]) -> list[Value]:
    """The columns of a square tile whose side is a power of two, by log2(side) rounds.

    Each round exchanges one bit of the rows' numbers with one of the lanes'. Machines interleave
    within 128 bits, and exchange blocks of 128 bits, by one instruction each.
    """
    side = len(rows)
    if side & (side - 1) or any(row.lanes != side for row in rows):
        raise TypeError(f"{side} rows of {rows[0].lanes} lanes are no square with a power of two")
    block = min(side, max(1, _BLOCK_BITS // max(rows[0].dtype.bits, 8)))
    columns = list(rows)
    distance = block // 2
    while distance:
        columns = _mixed(columns, distance, *_interleaved_blocks(side, block))
        distance //= 2
    distance = block
    while distance < side:
        columns = _mixed(columns, distance, *_dealt_blocks(side, block))
        distance *= 2
    return columns


_BLOCK_BITS = 128
"""Bits within which machines move lanes freely."""


def _interleaved_blocks(side: int, block: int) -> tuple[list[int], list[int]]:
    """The lanes of two vectors in turn: from the lower halves of blocks, from the upper ones."""
    pairs = [(lane, lane + side) for lane in range(side)]
    low = [lane for pair in pairs if pair[0] % block < block // 2 for lane in pair]
    high = [lane for pair in pairs if pair[0] % block >= block // 2 for lane in pair]
    return low, high


def _dealt_blocks(side: int, block: int) -> tuple[list[int], list[int]]:
    """The even blocks of two vectors, and the odd ones."""
    lanes = range(2 * side)
    low = [lane for lane in lanes if lane // block % 2 == 0]
    return low, [lane for lane in lanes if lane // block % 2]


def _mixed(rows: list[Value], distance: int, low: list[int], high: list[int]) -> list[Value]:
    """Replace each pair of rows that far apart by the two choices of lanes from both."""
    result = list(rows)
    for first in range(len(rows)):
        if not first & distance:
            a, b = rows[first], rows[first + distance]
            result[first], result[first + distance] = shuffle(a, b, low), shuffle(a, b, high)
    return result
