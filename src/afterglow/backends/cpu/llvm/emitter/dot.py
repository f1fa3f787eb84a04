"""Sums of products of neighbouring small integers, and what else works on parts of registers.

Each works on vectors of any length; where the target has an instruction for it, that is used on
parts of the length that it takes.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter.arithmetic import add_saturating, reinterpret
from afterglow.backends.cpu.llvm.emitter.conversion import convert
from afterglow.backends.cpu.llvm.emitter.shuffle import concat, deinterleave, part
from afterglow.backends.cpu.llvm.emitter.value import Value
from afterglow.backends.cpu.llvm.types import spell
from afterglow.types.dtype import DType, bf16, f32, i8, i16, i32, u8, u32

_PAIRS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
_BYTE_PAIRS = {
    8: "ssse3.pmadd.ub.sw.128",
    16: "avx2.pmadd.ub.sw",
    32: "avx512.pmaddubs.w.512",
}
_QUADS = {
    4: "x86.avx512.vpdpbusd.128",
    8: "x86.avx512.vpdpbusd.256",
    16: "x86.avx512.vpdpbusd.512",
}
_BF16_PAIRS = {
    4: "x86.avx512bf16.dpbf16ps.128",
    8: "x86.avx512bf16.dpbf16ps.256",
    16: "x86.avx512bf16.dpbf16ps.512",
}


def multiply_add_pairs(a: Value, b: Value) -> Value:
    """a0 b0 + a1 b1, a2 b2 + a3 b3, …: i16 to half as many i32."""
    _check((a, i16), (b, i16))
    target = a.code.target
    native = min(target.vector_bits // 32, a.lanes // 2)
    if target.architecture == "x86" and native in _PAIRS:
        name = f"x86.{_PAIRS[native]}"
        return _in_parts(name, i32, native, a, b)
    if target.architecture == "wasm" and native == 4:
        return _in_parts("wasm.dot", i32, native, a, b)
    wide = convert(a, i32) * convert(b, i32)
    even, odd = deinterleave(wide)
    return even + odd


def add_dot_words(total: Value, a: Value, b: Value) -> Value:
    """total + a0 b0 + a1 b1 of scalars that hold two i16 each: on Arm, with `dot_pairs`."""
    return _call("arm.smlad", i32, 1, a, b, total)


def widen_word(x: Value, *, signed: bool) -> tuple[Value, Value]:
    """The even and the odd of four bytes, each as two i16: on Arm, with `dot_pairs`."""
    name = "arm.sxtb16" if signed else "arm.uxtb16"
    turned = x.derive(f"call i32 @llvm.fshr.i32({x.typed}, {x.typed}, i32 8)")
    return _call(name, i32, 1, x), _call(name, i32, 1, turned)


def widen_in_order(x: Value, *, signed: bool) -> tuple[Value, Value]:
    """The first and the last two of four bytes, each as two i16: on Arm, with `dot_pairs`."""
    even, odd = (reinterpret(half, u32) for half in widen_word(x, signed=signed))
    first, last = (even & 0xFFFF) | (odd << 16), (even >> 16) | (odd & 0xFFFF0000)
    return reinterpret(first, i32), reinterpret(last, i32)


def larger_bytes(a: Value, b: Value, *, signed: bool) -> Value:
    """The larger of each of four bytes of two scalars: on Arm, with `bytes_of_scalars`."""
    _call("arm.ssub8" if signed else "arm.usub8", i32, 1, a, b)
    return _call("arm.sel", i32, 1, a, b)


def multiply_add_byte_pairs(a: Value, b: Value) -> Value:
    """As `multiply_add_pairs`, of u8 and i8 to i16, where too large sums become the largest."""
    _check((a, u8), (b, i8))
    target = a.code.target
    native = min(target.vector_bits // 16, a.lanes // 2)
    if target.byte_pairs and native in _BYTE_PAIRS:
        name = f"x86.{_BYTE_PAIRS[native]}"
        return _in_parts(name, i16, native, a, b)
    even, odd = deinterleave(convert(a, i16) * convert(b, i16))
    return add_saturating(even, odd)


def add_dot_quads(total: Value, a: Value, b: Value) -> Value:
    """total + a0 b0 + a1 b1 + a2 b2 + a3 b3 in the first lane, and so on; exact.

    `total` is i32, `b` i8 and `a` u8 or i8, four times as many.
    """
    _check((total, i32), (b, i8), (a, u8 if a.dtype is u8 else i8))
    name, native = _quad_instruction(total, a)
    if not name:
        return total + _dot_quads(a, b)

    def one(start: int) -> Value:
        first = part(total, start, native)
        x, y = (part(v, 4 * start, 4 * native) for v in (a, b))
        return _call(name, i32, native, first, x, y)

    return concat(*(one(start) for start in range(0, total.lanes, native)))


def add_dot_bf16(total: Value, a: Value, b: Value) -> Value:
    """total + a1 b1 + a0 b0 in the first lane, and so on: bf16 to half as many f32.

    The target has `dot_bf16`. Each product is exact before it is added; each of the two additions
    rounds to nearest even. Subnormal numbers, of operands and of sums, are taken for zero.
    """
    _check((total, f32), (a, bf16), (b, bf16))
    native = min(total.code.target.vector_bits // 32, total.lanes)

    def one(start: int) -> Value:
        first = part(total, start, native)
        x, y = (_as_bfloat(part(v, 2 * start, 2 * native)) for v in (a, b))
        kind = f"<{native} x float>"
        call = f"call {kind} @llvm.{_BF16_PAIRS[native]}({first.typed}, {x}, {y})"
        return first.derive(call)

    return concat(*(one(start) for start in range(0, total.lanes, native)))


def _as_bfloat(x: Value) -> str:
    """A vector of bf16 by the name that LLVM has for its type."""
    kind = f"<{x.lanes} x bfloat>"
    return f"{kind} {x.derive(f'bitcast {x.typed} to {kind}').text}"


def _quad_instruction(total: Value, a: Value) -> tuple[str, int]:
    """The intrinsic for such operands and its lanes; no name if there is none."""
    target = total.code.target
    native = min(target.vector_bits // 32, total.lanes)
    fits = native >= 4 and total.lanes % native == 0
    mixed = a.dtype is u8
    if not fits or not (target.dot_mixed_signs if mixed else target.dot_same_sign):
        return "", 0
    if target.architecture == "aarch64":
        return f"aarch64.neon.{'usdot' if mixed else 'sdot'}.v4i32.v16i8", 4
    return (_QUADS.get(native, ""), native) if mixed else ("", 0)


def _dot_quads(a: Value, b: Value) -> Value:
    pairs = multiply_add_pairs(convert(a, i16), convert(b, i16))
    even, odd = deinterleave(pairs)
    return even + odd


def _in_parts(name: str, result: DType, native: int, a: Value, b: Value) -> Value:
    """Call an intrinsic that makes `native` lanes of twice as many, part by part."""
    width = 2 * native
    if a.lanes % width:
        raise TypeError(f"{a.lanes} lanes are no multiple of {width}")
    starts = range(0, a.lanes, width)
    parts = [_call(name, result, native, part(a, s, width), part(b, s, width)) for s in starts]
    return concat(*parts)


def _call(name: str, result: DType, lanes: int, *operands: Value) -> Value:
    arguments = ", ".join(operand.typed for operand in operands)
    text = f"call {spell(result, lanes)} @llvm.{name}({arguments})"
    return operands[0].derive(text, result, lanes)


def _check(*operands: tuple[Value, DType]) -> None:
    for value, dtype in operands:
        if value.dtype is not dtype:
            raise TypeError(f"the operand must be {dtype}, got {value.dtype}")
