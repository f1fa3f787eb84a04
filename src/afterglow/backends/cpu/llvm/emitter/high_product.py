"""High halves of products of integers, by instructions for vectors of them."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter.arithmetic import reinterpret
from afterglow.backends.cpu.llvm.emitter.shuffle import concat, part, shuffle
from afterglow.backends.cpu.llvm.emitter.value import Value, unify
from afterglow.types.dtype import i32, i64

_NEON_LANES = 4


def high_product(a: Value, b: Value) -> Value | None:
    """a b / 2^31 of i32, rounded to the nearest, halves up; None where 64 bits are as good."""
    x, y = unify(a, b)
    target = x.code.target
    if target.architecture == "x86" and x.lanes > 1 and x.lanes % 2 == 0:
        return _of_pairs(x, y)
    if target.architecture == "aarch64" and x.lanes % _NEON_LANES == 0:
        return _of_quarters(x, y)
    return None


def _of_pairs(x: Value, y: Value) -> Value:
    """Of the even lanes, and of the odd ones: one instruction multiplies the even ones of both."""
    wide = reinterpret(x, i64), reinterpret(y, i64)
    even, odd = ([(each << s) >> 32 for each in wide] for s in (32, 0))
    products = [part[0] * part[1] + (1 << 30) for part in (even, odd)]
    low, high = reinterpret(products[0] >> 31, i32), reinterpret(products[1] << 1, i32)
    lanes = x.lanes
    return shuffle(low, high, [lane + lanes * (lane % 2) for lane in range(lanes)])


def _of_quarters(x: Value, y: Value) -> Value:
    """Four lanes at a time."""

    def one(start: int) -> Value:
        left, right = part(x, start, _NEON_LANES), part(y, start, _NEON_LANES)
        name = "@llvm.aarch64.neon.sqrdmulh.v4i32"
        return left.derive(f"call <4 x i32> {name}({left.typed}, {right.typed})")

    return concat(*(one(start) for start in range(0, x.lanes, _NEON_LANES)))
