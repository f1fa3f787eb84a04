"""Division of integers, bit by bit."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Emitter, Value, convert, leading_zeros, select
from afterglow.types.dtype import DType, i32, i64, u32, u64

_UNSIGNED: dict[DType, DType] = {i32: u32, i64: u64}


def divide(e: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    """Quotient and remainder, rounded towards zero; the remainder has the sign of `a`."""
    if not a.dtype.is_signed:
        return _divide_sizes(e, a, b)
    wide = _UNSIGNED[a.dtype]
    minus, other = a < 0, b < 0
    quotient, rest = _divide_sizes(
        e, convert(select(minus, 0 - a, a), wide), convert(select(other, 0 - b, b), wide)
    )
    quotient, rest = convert(quotient, a.dtype), convert(rest, a.dtype)
    return select(minus ^ other, 0 - quotient, quotient), select(minus, 0 - rest, rest)


def _divide_sizes(e: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    """From the first bit that the quotient can have to the last."""
    first = convert(leading_zeros(b), i32) - convert(leading_zeros(a), i32)

    def digit(index: Value, state: list[Value]) -> list[Value]:
        rest, quotient = state
        shifted = b << convert(e.index(first) - index, a.dtype)
        fits = rest >= shifted
        return [select(fits, rest - shifted, rest), (quotient << 1) | convert(fits, a.dtype)]

    rest, quotient = e.fold(e.index(first + 1), [a, a.like(0)], digit, name="bit")
    return quotient, rest
