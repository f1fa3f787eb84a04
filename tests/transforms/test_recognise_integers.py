"""Products of bytes that are written in 32 bits."""

from __future__ import annotations

import pytest

from afterglow.transforms.recognise_integers import RECOGNISE_INTEGERS
from tests.transforms.rewriting import check_declines, check_rewrites, program

CAST = "{dtype = i32, saturate = true, round_mode = up}"
PLAIN = "{transpose_lhs = false, transpose_rhs = false}"
QUANTIZED = "transpose_lhs = false, transpose_rhs = false"
WEIGHT = "const @w : i32[2, 2] = [1, -128, 3, 127]"


def test_a_value_as_zero_point_is_subtracted_from_the_product() -> None:
    check_rewrites(
        RECOGNISE_INTEGERS,
        before=program(
            "%x: u8[3, 2], %z: i32[]",
            WEIGHT,
            f"%v = cast(%x) {CAST} : i32[3, 2]",
            "%d = sub(%v, %z) : i32[3, 2]",
            f"%y = matmul(%d, @w) {PLAIN} : i32[3, 2]",
        ),
        after=program(
            "%x: u8[3, 2], %z: i32[]",
            "const @y.weight : i8[2, 2] = [1, -128, 3, 127]",
            "const @y.sums : i32[2] = [4, -1]",
            f"%y_1 = quantized_matmul(%x, @y.weight) {{{QUANTIZED}, lhs_zero_point = 0, "
            "rhs_zero_point = 0} : i32[3, 2]",
            "%y_2 = mul(%z, @y.sums) : i32[2]",
            "%y = sub(%y_1, %y_2) : i32[3, 2]",
        ),
    )


def test_columns_that_fit_bytes_one_by_one_are_centred() -> None:
    check_rewrites(
        RECOGNISE_INTEGERS,
        before=program(
            "%x: u8[3, 2]",
            "const @w : i32[2, 2] = [255, -200, 1, 55]",
            f"%v = cast(%x) {CAST} : i32[3, 2]",
            f"%y = matmul(%v, @w) {PLAIN} : i32[3, 2]",
        ),
        after=program(
            "%x: u8[3, 2]",
            "const @y.centre : i32[2] = [-129, 72]",
            "const @y_2.weight : i8[2, 2] = [126, -128, -128, 127]",
            f"%v = cast(%x) {CAST} : i32[3, 2]",
            "%y_1 = reduce_sum(%v) {axes = (1,), keepdims = true} : i32[3, 1]",
            f"%y_2 = quantized_matmul(%x, @y_2.weight) {{{QUANTIZED}, lhs_zero_point = 0, "
            "rhs_zero_point = 0} : i32[3, 2]",
            "%y_3 = mul(%y_1, @y.centre) : i32[3, 2]",
            "%y = sub(%y_2, %y_3) : i32[3, 2]",
        ),
    )


def test_columns_that_span_more_than_bytes_stay() -> None:
    check_declines(
        RECOGNISE_INTEGERS,
        program(
            "%x: u8[3, 2]",
            "const @w : i32[2, 2] = [255, -200, -1, 56]",
            f"%v = cast(%x) {CAST} : i32[3, 2]",
            f"%y = matmul(%v, @w) {PLAIN} : i32[3, 2]",
        ),
    )


def test_a_known_zero_point_is_part_of_the_convolution() -> None:
    attributes = "strides = (1,), pads = (1, 1), dilations = (1,), groups = 1"
    check_rewrites(
        RECOGNISE_INTEGERS,
        before=program(
            "%x: u8[1, 4, 1]",
            "const @z : i32[] = [-7]",
            "const @w : i32[1, 3, 1] = [1, -2, 3]",
            f"%v = cast(%x) {CAST} : i32[1, 4, 1]",
            "%d = add(%v, @z) : i32[1, 4, 1]",
            f"%y = conv(%d, @w) {{{attributes}}} : i32[1, 4, 1]",
        ),
        after=program(
            "%x: u8[1, 4, 1]",
            "const @y.weight : i8[1, 3, 1] = [1, -2, 3]",
            f"%y = quantized_conv(%x, @y.weight) {{{attributes}, x_zero_point = 7, "
            "weight_zero_point = 0} : i32[1, 4, 1]",
        ),
    )


def test_a_value_as_zero_point_is_an_operand_of_the_convolution() -> None:
    attributes = "strides = (1,), pads = (1, 1), dilations = (1,), groups = 1"
    check_rewrites(
        RECOGNISE_INTEGERS,
        before=program(
            "%x: u8[1, 4, 1], %z: u8[]",
            "const @w : i32[1, 3, 1] = [1, -2, 3]",
            f"%v = cast(%x) {CAST} : i32[1, 4, 1]",
            f"%s = cast(%z) {CAST} : i32[]",
            "%d = sub(%v, %s) : i32[1, 4, 1]",
            f"%y = conv(%d, @w) {{{attributes}}} : i32[1, 4, 1]",
        ),
        after=program(
            "%x: u8[1, 4, 1], %z: u8[]",
            "const @y.weight : i8[1, 3, 1] = [1, -2, 3]",
            f"%y = quantized_conv(%x, @y.weight, none, none, %z) {{{attributes}, x_zero_point = 0, "
            "weight_zero_point = 0} : i32[1, 4, 1]",
        ),
    )


@pytest.mark.parametrize("zero", ["%z: i32[]", "%z: i8[]", "%z: f32[]"])
def test_a_zero_point_that_may_be_no_byte_of_x_stays_in_front_of_the_convolution(
    zero: str,
) -> None:
    attributes = "strides = (1,), pads = (1, 1), dilations = (1,), groups = 1"
    made = [] if "i32" in zero else [f"%s = cast(%z) {CAST} : i32[]"]
    check_declines(
        RECOGNISE_INTEGERS,
        program(
            f"%x: u8[1, 4, 1], {zero}",
            "const @w : i32[1, 3, 1] = [1, -2, 3]",
            f"%v = cast(%x) {CAST} : i32[1, 4, 1]",
            *made,
            f"%d = sub(%v, {'%s' if made else '%z'}) : i32[1, 4, 1]",
            f"%y = conv(%d, @w) {{{attributes}}} : i32[1, 4, 1]",
        ),
    )


@pytest.mark.parametrize(
    ("weight", "zero_point"),
    [("[1, -129, 3, 127]", -3), ("[256, 2, 3, 128]", -3), ("[1, 2, 3, 4]", 1)],
)
def test_numbers_that_are_no_bytes_stay(weight: str, zero_point: int) -> None:
    check_declines(
        RECOGNISE_INTEGERS,
        program(
            "%x: u8[3, 2]",
            f"const @z : i32[] = [{zero_point}]",
            f"const @w : i32[2, 2] = {weight}",
            f"%v = cast(%x) {CAST} : i32[3, 2]",
            "%d = add(%v, @z) : i32[3, 2]",
            f"%y = matmul(%d, @w) {PLAIN} : i32[3, 2]",
        ),
    )


def test_weights_that_fit_when_shifted_have_a_zero_point() -> None:
    check_rewrites(
        RECOGNISE_INTEGERS,
        before=program(
            "%x: u8[3, 2]",
            "const @w : i32[2, 2] = [1, -100, 3, 155]",
            f"%v = cast(%x) {CAST} : i32[3, 2]",
            f"%y = matmul(%v, @w) {PLAIN} : i32[3, 2]",
        ),
        after=program(
            "%x: u8[3, 2]",
            "const @y.weight : i8[2, 2] = [-27, -128, -25, 127]",
            f"%y = quantized_matmul(%x, @y.weight) {{{QUANTIZED}, lhs_zero_point = 0, "
            "rhs_zero_point = -28} : i32[3, 2]",
        ),
    )


def test_a_bias_and_a_scale_of_sums_become_part_of_the_product() -> None:
    known = "lhs_zero_point = 7, rhs_zero_point = 0"
    check_rewrites(
        RECOGNISE_INTEGERS,
        before=program(
            "%x: u8[3, 2]",
            "const @w : i8[2, 2] = [1, -128, 3, 127]",
            "const @c : i32[2] = [5, -6]",
            "const @s : f32[] = [0.5]",
            f"%v = quantized_matmul(%x, @w) {{{QUANTIZED}, {known}}} : i32[3, 2]",
            "%d = add(%v, @c) : i32[3, 2]",
            "%f = cast(%d) {dtype = f32, saturate = true, round_mode = up} : f32[3, 2]",
            "%y = mul(%f, @s) : f32[3, 2]",
        ),
        after=program(
            "%x: u8[3, 2]",
            "const @w : i8[2, 2] = [1, -128, 3, 127]",
            "const @c : i32[2] = [5, -6]",
            "const @s : f32[] = [0.5]",
            f"%y = quantized_matmul(%x, @w, @s, @c) {{{QUANTIZED}, {known}}} : f32[3, 2]",
        ),
    )


def test_a_sum_that_is_read_elsewhere_keeps_its_form() -> None:
    known = "lhs_zero_point = 7, rhs_zero_point = 0"
    check_declines(
        RECOGNISE_INTEGERS,
        program(
            "%x: u8[3, 2]",
            "const @w : i8[2, 2] = [1, -128, 3, 127]",
            "const @c : i32[2] = [5, -6]",
            f"%v = quantized_matmul(%x, @w) {{{QUANTIZED}, {known}}} : i32[3, 2]",
            "%d = add(%v, @c) : i32[3, 2]",
            "%y = add(%d, %v) : i32[3, 2]",
        ),
    )


def test_bytes_are_moved_before_they_become_integers() -> None:
    check_rewrites(
        RECOGNISE_INTEGERS,
        before=program(
            "%x: u8[3, 1, 2]",
            "const @z : i32[] = [7]",
            "const @w : i32[2, 2] = [1, -128, 3, 127]",
            f"%v = cast(%x) {CAST} : i32[3, 1, 2]",
            "%d = sub(%v, @z) : i32[3, 1, 2]",
            "%r = reshape(%d) {shape = (1, 3, 2)} : i32[1, 3, 2]",
            f"%y = matmul(%r, @w) {PLAIN} : i32[1, 3, 2]",
        ),
        after=program(
            "%x: u8[3, 1, 2]",
            "const @y.weight : i8[2, 2] = [1, -128, 3, 127]",
            "%r_1 = reshape(%x) {shape = (1, 3, 2)} : u8[1, 3, 2]",
            f"%y = quantized_matmul(%r_1, @y.weight) {{{QUANTIZED}, lhs_zero_point = 7, "
            "rhs_zero_point = 0} : i32[1, 3, 2]",
        ),
    )
