"""Islands of integers that grow: bytes are moved, pooled and joined, and saturate by themselves."""

from __future__ import annotations

from afterglow.transforms.integer_islands import INTEGER_ISLANDS
from tests.transforms.rewriting import check_declines, check_rewrites, program

ALONG_1 = "{axis = 1, dtype = f32, block_size = 0}"
TO_BYTES = "{axis = 1, dtype = u8, block_size = 0, saturate = true}"
X_SCALE = "const @s : f32[] = [0.5]"
X_ZERO = "const @z : u8[] = [3]"


def test_quantizing_what_was_dequantized_is_undone() -> None:
    check_rewrites(
        INTEGER_ISLANDS,
        before=program(
            "%x: u8[2, 3]",
            *(X_ZERO, X_SCALE),
            f"%v = dequantize_linear(%x, @s, @z) {ALONG_1} : f32[2, 3]",
            "%r = reshape(%v) {shape = (6,)} : f32[6]",
            f"%y = quantize_linear(%r, @s, @z) {TO_BYTES.replace('axis = 1', 'axis = 0')} : u8[6]",
        ),
        after="""
            func @main(%x: u8[2, 3]) {
              %r_1 = reshape(%x) {shape = (6,)} : u8[6]
              return %r_1 as "y"
            }
        """,
    )


def test_parts_are_not_each_quantized_as_a_whole() -> None:
    part = "{starts = (0, 0), extents = (2, 3), steps = (1, 1)}"
    check_declines(
        INTEGER_ISLANDS,
        program(
            "%x: f32[2, 4]",
            *(X_SCALE, X_ZERO, "const @o : f32[] = [0.25]"),
            "%r = relu(%x) : f32[2, 4]",
            f"%a = slice(%r) {part} : f32[2, 3]",
            f"%b = slice(%r) {part} : f32[2, 3]",
            f"%p = quantize_linear(%a, @s, @z) {TO_BYTES} : u8[2, 3]",
            f"%q = quantize_linear(%b, @o, @z) {TO_BYTES} : u8[2, 3]",
            "%y = max(%p, %q) : u8[2, 3]",
        ),
    )


def test_another_zero_point_is_not() -> None:
    check_declines(
        INTEGER_ISLANDS,
        program(
            "%x: u8[2, 3]",
            *(X_ZERO, X_SCALE),
            f"%v = dequantize_linear(%x, @s, @z) {ALONG_1} : f32[2, 3]",
            f"%y = quantize_linear(%v, @s) {TO_BYTES} : u8[2, 3]",
        ),
    )


def test_bytes_are_moved_and_pooled() -> None:
    pool = "{kernel = (2,), strides = (2,), pads = (1, 1), dilations = (1,), ceil_mode = false}"
    check_rewrites(
        INTEGER_ISLANDS,
        before=program(
            "%x: u8[1, 4, 2]",
            *(X_ZERO, X_SCALE),
            f"%v = dequantize_linear(%x, @s, @z) {ALONG_1} : f32[1, 4, 2]",
            f"%p = max_pool(%v) {pool} : f32[1, 3, 2]",
            "%y = transpose(%p) {perm = (2, 0, 1)} : f32[2, 1, 3]",
        ),
        after=program(
            "%x: u8[1, 4, 2]",
            *(X_ZERO, X_SCALE),
            f"%p_1 = max_pool(%x) {pool} : u8[1, 3, 2]",
            "%y_1 = transpose(%p_1) {perm = (2, 0, 1)} : u8[2, 1, 3]",
            f"%y = dequantize_linear(%y_1, @s, @z) {ALONG_1} : f32[2, 1, 3]",
        ),
    )


def test_what_is_joined_is_quantized_before() -> None:
    check_rewrites(
        INTEGER_ISLANDS,
        before=program(
            "%x: u8[2, 3], %y: f32[2, 1]",
            *(X_ZERO, X_SCALE),
            f"%v = dequantize_linear(%x, @s, @z) {ALONG_1} : f32[2, 3]",
            "%c = concat(%v, %y) {axis = 1} : f32[2, 4]",
            f"%q = quantize_linear(%c, @s, @z) {TO_BYTES} : u8[2, 4]",
        ),
        after=program(
            "%x: u8[2, 3], %y: f32[2, 1]",
            *(X_ZERO, X_SCALE),
            f"%q_2 = quantize_linear(%y, @s, @z) {TO_BYTES} : u8[2, 1]",
            "%q = concat(%x, %q_2) {axis = 1} : u8[2, 4]",
        ),
    )


def test_floats_are_joined_before_they_are_quantized() -> None:
    check_declines(
        INTEGER_ISLANDS,
        program(
            "%x: f32[2, 3], %y: f32[2, 1]",
            *(X_ZERO, X_SCALE),
            "%c = concat(%x, %y) {axis = 1} : f32[2, 4]",
            f"%q = quantize_linear(%c, @s, @z) {TO_BYTES} : u8[2, 4]",
        ),
    )


def test_a_bound_that_integers_do_not_reach_is_dropped() -> None:
    check_rewrites(
        INTEGER_ISLANDS,
        before=program(
            "%x: f32[2, 3]",
            *(X_ZERO, X_SCALE),
            "%c = clip(%x) {low = -1.6, high = 200.0} : f32[2, 3]",
            f"%y = quantize_linear(%c, @s, @z) {TO_BYTES} : u8[2, 3]",
        ),
        after=program(
            "%x: f32[2, 3]",
            *(X_ZERO, X_SCALE),
            f"%y = quantize_linear(%x, @s, @z) {TO_BYTES} : u8[2, 3]",
        ),
    )


def test_a_bound_within_their_reach_stays() -> None:
    check_declines(
        INTEGER_ISLANDS,
        program(
            "%x: f32[2, 3]",
            *(X_ZERO, X_SCALE),
            "%c = relu(%x) : f32[2, 3]",
            f"%y = quantize_linear(%c, @s, @z) {TO_BYTES} : u8[2, 3]",
        ),
    )
