"""Arithmetic of floats by integers: each result is the nearest float, ties to even."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Value,
    convert,
    differ,
    equal,
    select,
    smaller,
)
from afterglow.backends.cpu.llvm.routines.float_format import (
    FloatFormat,
    Parts,
    normalised,
    put_together,
    shift_down,
    take_apart,
    with_sign,
)
from afterglow.types.dtype import i32, u64

_LOW = (1 << 32) - 1


def add(e: Emitter, form: FloatFormat, a: Value, b: Value) -> Value:
    """a + b."""
    x, y = take_apart(a, form), take_apart(b, form)
    swap = x.size < y.size
    big, small = _chosen(swap, y, x), _chosen(swap, x, y)
    # Two bits of room above: the sum may carry, and both have zeros to spare below.
    apart = smaller(big.exponent - small.exponent, 63)
    first, second = big.significand >> 2, shift_down(small.significand >> 2, apart)
    alike = equal(convert(big.negative, i32), convert(small.negative, i32))
    total = select(alike, first + second, first - second)
    significand, zeros = normalised(total)
    made = put_together(form, big.negative, big.exponent + 2 - zeros, significand)
    none = with_sign(form, total.like(0), big.negative & small.negative)
    made = select(equal(total, 0), none, made)
    made = select(big.is_infinite, with_sign(form, big.size, big.negative), made)
    lost = big.is_nan | (big.is_infinite & small.is_infinite & ~alike)
    return select(lost, made.like(form.nan), made)


def subtract(e: Emitter, form: FloatFormat, a: Value, b: Value) -> Value:
    """a - b."""
    return add(e, form, a, b ^ form.sign)


def multiply(e: Emitter, form: FloatFormat, a: Value, b: Value) -> Value:
    """a * b."""
    x, y = take_apart(a, form), take_apart(b, form)
    negative = x.negative ^ y.negative
    high, low = _wide_product(x.significand, y.significand)
    significand, zeros = normalised(high | convert(differ(low, 0), u64))
    exponent = x.exponent + y.exponent - (form.bias - 1) - zeros
    made = put_together(form, negative, exponent, significand)
    is_zero, is_infinite = x.is_zero | y.is_zero, x.is_infinite | y.is_infinite
    return _with_specials(form, made, negative, x, y, is_zero, is_infinite)


def divide(e: Emitter, form: FloatFormat, a: Value, b: Value) -> Value:
    """a / b."""
    x, y = take_apart(a, form), take_apart(b, form)
    negative = x.negative ^ y.negative
    least = x.significand < y.significand
    start, divisor = x.significand >> 1, y.significand >> 1
    start = select(least, x.significand, start)
    digits = form.fraction_bits + 4

    def digit(_: Value, state: list[Value]) -> list[Value]:
        rest, quotient = state
        fits = rest >= divisor
        rest = select(fits, rest - divisor, rest)
        return [rest << 1, (quotient << 1) | convert(fits, u64)]

    rest, quotient = e.fold(digits, [start, start.like(0)], digit, name="digit")
    significand = (quotient << (64 - digits)) | convert(differ(rest, 0), u64)
    exponent = x.exponent - y.exponent + form.bias - convert(least, i32)
    made = put_together(form, negative, exponent, significand)
    is_zero, is_infinite = x.is_zero | y.is_infinite, x.is_infinite | y.is_zero
    return _with_specials(form, made, negative, x, y, is_zero, is_infinite)


def square_root(e: Emitter, form: FloatFormat, a: Value) -> Value:
    """The square root, digit by digit."""
    x = take_apart(a, form)
    odd = differ((x.exponent - form.bias) & 1, 0)
    digits = form.fraction_bits + 3

    def digit(_: Value, state: list[Value]) -> list[Value]:
        given, rest, root = state
        rest = (rest << 2) | (given >> 62)
        candidate = (root << 2) | 1
        fits = rest >= candidate
        rest = select(fits, rest - candidate, rest)
        return [given << 2, rest, (root << 1) | convert(fits, u64)]

    given = select(odd, x.significand, x.significand >> 1)
    zero = given.like(0)
    _, rest, root = e.fold(digits, [given, zero, zero], digit, name="digit")
    significand = (root << (64 - digits)) | convert(differ(rest, 0), u64)
    exponent = ((x.exponent - form.bias) >> 1) + form.bias
    made = put_together(form, x.negative, exponent, significand)
    made = select(x.is_zero | x.is_infinite, a, made)
    wrong = x.is_nan | (x.negative & differ(x.size, 0))
    return select(wrong, made.like(form.nan), made)


def _with_specials(
    form: FloatFormat,
    made: Value,
    negative: Value,
    x: Parts,
    y: Parts,
    is_zero: Value,
    is_infinite: Value,
) -> Value:
    """The result of a product or a quotient, with what has no significand put right."""
    size = x.size
    made = select(is_zero, with_sign(form, size.like(0), negative), made)
    made = select(is_infinite, with_sign(form, size.like(form.infinity), negative), made)
    lost = x.is_nan | y.is_nan | (is_zero & is_infinite)
    return select(lost, made.like(form.nan), made)


def _chosen(condition: Value, a: Parts, b: Parts) -> Parts:
    return Parts(
        a.form,
        select(condition, a.size, b.size),
        select(condition, a.negative, b.negative),
        select(condition, a.exponent, b.exponent),
        select(condition, a.significand, b.significand),
    )


def _wide_product(a: Value, b: Value) -> tuple[Value, Value]:
    """The upper and the lower half of a product of 128 bits."""
    a0, a1, b0, b1 = a & _LOW, a >> 32, b & _LOW, b >> 32
    low, middle, other, high = a0 * b0, a0 * b1, a1 * b0, a1 * b1
    carried = (low >> 32) + (middle & _LOW) + (other & _LOW)
    upper = high + (middle >> 32) + (other >> 32) + (carried >> 32)
    return upper, (carried << 32) | (low & _LOW)
