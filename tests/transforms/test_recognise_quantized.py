"""Arithmetic on dequantized numbers that becomes arithmetic on quantized ones."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import parse_module, run_function
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


WIDE = (
    "strides = (1,), pads = (1, 1), dilations = (1,), groups = 1, "
    "x_zero_point = 0, weight_zero_point = 0"
)


def test_products_of_16_bits_are_those_of_high_and_of_low_bytes() -> None:
    check_rewrites(
        RECOGNISE_QUANTIZED,
        before=program(
            "%x: i16[1, 4, 2]",
            *(X_SCALE, WEIGHT, SCALES, BIAS, BIAS_SCALES),
            f"%v = dequantize_linear(%x, @s) {PLAIN} : f32[1, 4, 2]",
            DEQUANTIZED[1],
            f"%b = dequantize_linear(@c, @u) {PLAIN} : f32[2]",
            f"%y = conv(%v, %k, %b) {{{ATTRIBUTES}}} : f32[1, 6, 2]",
        ),
        after=program(
            "%x: i16[1, 4, 2]",
            *(WEIGHT, BIAS, "const @y.scale : f32[2] = [0.25, 0.125]"),
            "const @y.scale_1 : f32[2] = [64.0, 32.0]",
            "const @eight : i16[] = [8]",
            "%y_1 = shift_right(%x, @eight) : i16[1, 4, 2]",
            "%y_2 = cast(%y_1) {dtype = i8, saturate = true, round_mode = up} : i8[1, 4, 2]",
            f"%y_3 = quantized_conv(%y_2, @w, @y.scale_1) {{{WIDE}}} : f32[1, 6, 2]",
            "%y_4 = cast(%x) {dtype = u8, saturate = true, round_mode = up} : u8[1, 4, 2]",
            f"%y_6 = quantized_conv(%y_4, @w, @y.scale, @c) {{{WIDE}}} : f32[1, 6, 2]",
            "%y = add(%y_3, %y_6) : f32[1, 6, 2]",
        ),
    )


def test_low_bytes_take_a_bias_that_is_added_later() -> None:
    plain = "{transpose_lhs = false, transpose_rhs = false}"
    module = parse_module(
        program(
            "%x: i16[3, 2]",
            *(X_SCALE, "const @m : i8[2, 2] = [1, -2, 3, -4]", SCALES, BIAS, BIAS_SCALES),
            f"%v = dequantize_linear(%x, @s) {PLAIN} : f32[3, 2]",
            f"%k = dequantize_linear(@m, @t) {ALONG_1} : f32[2, 2]",
            f"%p = matmul(%v, %k) {plain} : f32[3, 2]",
            f"%b = dequantize_linear(@c, @u) {PLAIN} : f32[2]",
            "%y = add(%p, %b) : f32[3, 2]",
        )
    )
    x = np.array([[-32768, 32767], [255, -256], [-1, 77]], np.int16)
    (wanted,) = run_function(module.main, [x])
    assert RECOGNISE_QUANTIZED.run(module.main)
    ops = [node.op.mnemonic for node in module.main.nodes]
    assert (ops.count("quantized_matmul"), ops.count("add")) == (2, 1)
    assert np.array_equal(run_function(module.main, [x])[0], wanted)  # all are exact


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


def test_a_product_by_a_scale_of_the_run_multiplies_integers() -> None:
    check_rewrites(
        RECOGNISE_QUANTIZED,
        before=program(
            "%x: i8[1, 2], %s: f32[], %z: i8[]",
            *("const @w : i8[2, 2] = [1, -2, 3, -4]", SCALES),
            f"%v = dequantize_linear(%x, %s, %z) {PLAIN} : f32[1, 2]",
            f"%k = dequantize_linear(@w, @t) {PLAIN} : f32[2, 2]",
            "%y = matmul(%v, %k) {transpose_lhs = false, transpose_rhs = true} : f32[1, 2]",
        ),
        after=program(
            "%x: i8[1, 2], %s: f32[], %z: i8[]",
            *(SCALES, "const @w_1 : i32[2, 2] = [1, -2, 3, -4]"),
            "%y_1 = cast(%x) {dtype = i32, saturate = true, round_mode = up} : i32[1, 2]",
            "%y_2 = cast(%z) {dtype = i32, saturate = true, round_mode = up} : i32[]",
            "%y_3 = sub(%y_1, %y_2) : i32[1, 2]",
            "%y_4 = matmul(%y_3, @w_1) {transpose_lhs = false, transpose_rhs = true} : i32[1, 2]",
            "%y_5 = cast(%y_4) {dtype = f32, saturate = true, round_mode = up} : f32[1, 2]",
            "%y_6 = mul(%s, @t) : f32[2]",
            "%y = mul(%y_5, %y_6) : f32[1, 2]",
        ),
    )
