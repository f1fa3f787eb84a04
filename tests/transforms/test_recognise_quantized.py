"""Arithmetic on dequantized numbers that becomes arithmetic on quantized ones."""

from __future__ import annotations

import pytest

from afterglow.transforms.recognise_quantized import RECOGNISE_QUANTIZED
from tests.transforms.rewriting import check_declines, check_rewrites, program

ATTRIBUTES = "strides = (1,), pads = (1, 1), dilations = (1,), groups = 1"
PLAIN = "{axis = 0, dtype = f32, block_size = 0}"
ALONG_1 = "{axis = 1, dtype = f32, block_size = 0}"

X_SCALE = "const @s : f32[] = [0.5]"
X_ZERO = "const @z : u8[] = [3]"
WEIGHT = "const @w : i8[2, 1, 2] = [1, -2, 3, -4]"
SCALES = "const @t : f32[2] = [0.5, 0.25]"
BIAS = "const @c : i32[2] = [7, -9]"
BIAS_SCALES = "const @u : f32[2] = [0.25, 0.125]"
DEQUANTIZED = (
    f"%v = dequantize_linear(%x, @s, @z) {PLAIN} : f32[1, 4, 2]",
    f"%k = dequantize_linear(@w, @t) {PLAIN} : f32[2, 1, 2]",
)


def test_a_convolution_takes_its_bias() -> None:
    check_rewrites(
        RECOGNISE_QUANTIZED,
        before=program(
            "%x: u8[1, 4, 2]",
            *(X_ZERO, X_SCALE, WEIGHT, SCALES, BIAS, BIAS_SCALES),
            *DEQUANTIZED,
            f"%b = dequantize_linear(@c, @u) {PLAIN} : f32[2]",
            f"%y = conv(%v, %k, %b) {{{ATTRIBUTES}}} : f32[1, 6, 2]",
        ),
        after=program(
            "%x: u8[1, 4, 2]",
            *(WEIGHT, BIAS, "const @y.scale : f32[2] = [0.25, 0.125]"),
            f"%y = quantized_conv(%x, @w, @y.scale, @c) {{{ATTRIBUTES}, "
            "x_zero_point = 3, weight_zero_point = 0} : f32[1, 6, 2]",
        ),
    )


def test_another_bias_is_added() -> None:
    check_rewrites(
        RECOGNISE_QUANTIZED,
        before=program(
            "%x: u8[1, 4, 2], %b: f32[2]",
            *(X_ZERO, X_SCALE, WEIGHT, SCALES),
            *DEQUANTIZED,
            f"%y = conv(%v, %k, %b) {{{ATTRIBUTES}}} : f32[1, 6, 2]",
        ),
        after=program(
            "%x: u8[1, 4, 2], %b: f32[2]",
            *(WEIGHT, "const @y.scale : f32[2] = [0.25, 0.125]"),
            f"%y_1 = quantized_conv(%x, @w, @y.scale) {{{ATTRIBUTES}, "
            "x_zero_point = 3, weight_zero_point = 0} : f32[1, 6, 2]",
            "%y = add(%y_1, %b) : f32[1, 6, 2]",
        ),
    )


def test_both_factors_of_a_product_may_be_inputs() -> None:
    check_rewrites(
        RECOGNISE_QUANTIZED,
        before=program(
            "%x: u8[2, 3], %y: u8[3, 2]",
            *(X_ZERO, X_SCALE),
            f"%v = dequantize_linear(%x, @s, @z) {PLAIN} : f32[2, 3]",
            f"%w = dequantize_linear(%y, @s) {PLAIN} : f32[3, 2]",
            "%p = matmul(%v, %w) {transpose_lhs = false, transpose_rhs = false} : f32[2, 2]",
        ),
        after=program(
            "%x: u8[2, 3], %y: u8[3, 2]",
            "const @p.scale : f32[] = [0.25]",
            "%p = quantized_matmul(%x, %y, @p.scale) {transpose_lhs = false, "
            "transpose_rhs = false, lhs_zero_point = 3, rhs_zero_point = 0} : f32[2, 2]",
        ),
    )


@pytest.mark.parametrize(
    ("x_scale", "weight", "axis"),
    [
        ("const @s : f32[2] = [0.5, 0.25]", "const @w : i8[2, 2] = [1, -2, 3, -4]", 1),
        ("const @s : f32[] = [0.5]", "const @w : i8[2, 2] = [1, -2, 3, -4]", 0),
        ("const @s : f32[] = [0.5]", "const @w : i32[2, 2] = [1, -2, 3, -4]", 1),
    ],
    ids=["scales of x", "scales along the depth", "wider weights"],
)
def test_what_does_not_fit_stays(x_scale: str, weight: str, axis: int) -> None:
    check_declines(
        RECOGNISE_QUANTIZED,
        program(
            "%x: u8[3, 2]",
            *(x_scale, weight, SCALES),
            f"%v = dequantize_linear(%x, @s) {ALONG_1} : f32[3, 2]",
            f"%k = dequantize_linear(@w, @t) {{axis = {axis}, dtype = f32, block_size = 0}}"
            " : f32[2, 2]",
            "%y = matmul(%v, %k) {transpose_lhs = false, transpose_rhs = false} : f32[3, 2]",
        ),
    )
