"""Transposes that move to where they cost least."""

import numpy as np
import pytest

from afterglow.graph import Function, parse_module, verify_module
from afterglow.ops.movement import Transpose
from afterglow.transforms.layouts.permutations import keeps_order
from afterglow.transforms.sink_transposes import SinkTransposes
from tests.transforms.rewriting import assert_same_meaning, check_declines, check_rewrites, program

SINK = SinkTransposes()
FIRST = "{perm = (0, 3, 1, 2)}"
LAST = "{perm = (0, 2, 3, 1)}"
CONV = "{strides = (1, 1), pads = (0, 0, 0, 0), dilations = (1, 1), groups = 1}"
PLAIN = "{transpose_lhs = false, transpose_rhs = false}"


def transposed_shapes(function: Function) -> list[tuple[int, ...]]:
    """The result shapes of the transposes that move anything."""
    return [
        node.result.type.shape
        for node in function.nodes
        if isinstance(node.op, Transpose)
        and not keeps_order(node.op.perm, node.given[0].type.shape)
    ]


def sunk(text: str) -> Function:
    """The function after the pass, which settles at once and keeps the meaning."""
    before, after = parse_module(text), parse_module(text)
    SINK.run(after.main)
    verify_module(after)
    assert_same_meaning(before.main, after.main)
    assert not SINK.run(after.main)
    return after.main


def test_transposes_are_left_only_where_values_come_in_and_go_out() -> None:
    check_rewrites(
        SINK,
        before=program(
            "%x: f32[1, 2, 4, 4]",
            "const @v : f32[2, 1, 1, 2] = [1, 2, 3, 4]",
            "const @w : f32[2, 1, 1, 2] = [5, 6, 7, 8]",
            f"%a = transpose(%x) {LAST} : f32[1, 4, 4, 2]",
            f"%b = conv(%a, @v) {CONV} : f32[1, 4, 4, 2]",
            f"%c = transpose(%b) {FIRST} : f32[1, 2, 4, 4]",
            "%d = relu(%c) : f32[1, 2, 4, 4]",
            f"%e = transpose(%d) {LAST} : f32[1, 4, 4, 2]",
            f"%f = conv(%e, @w) {CONV} : f32[1, 4, 4, 2]",
            f"%g = transpose(%f) {FIRST} : f32[1, 2, 4, 4]",
            "%h = add(%g, %d) : f32[1, 2, 4, 4]",
        ),
        after=program(
            "%x: f32[1, 2, 4, 4]",
            "const @v : f32[2, 1, 1, 2] = [1.0, 2.0, 3.0, 4.0]",
            "const @w : f32[2, 1, 1, 2] = [5.0, 6.0, 7.0, 8.0]",
            f"%a = transpose(%x) {LAST} : f32[1, 4, 4, 2]",
            f"%b = conv(%a, @v) {CONV} : f32[1, 4, 4, 2]",
            "%d = relu(%b) : f32[1, 4, 4, 2]",
            f"%f = conv(%d, @w) {CONV} : f32[1, 4, 4, 2]",
            "%h = add(%f, %d) : f32[1, 4, 4, 2]",
            f"%h_2 = transpose(%h) {FIRST} : f32[1, 2, 4, 4]",
        ).replace("return %h_2", 'return %h_2 as "h"'),
    )


def test_constants_and_scalars_come_along() -> None:
    check_rewrites(
        SINK,
        before=program(
            "%x: f32[1, 2, 2, 3], %s: f32[]",
            "const @c : f32[3, 1, 1] = [1, 2, 3]",
            f"%t = transpose(%x) {FIRST} : f32[1, 3, 2, 2]",
            "%a = mul(%t, @c) : f32[1, 3, 2, 2]",
            "%b = add(%a, %s) : f32[1, 3, 2, 2]",
            f"%r = transpose(%b) {LAST} : f32[1, 2, 2, 3]",
        ),
        after=program(
            "%x: f32[1, 2, 2, 3], %s: f32[]",
            "const @c_1 : f32[1, 1, 1, 3] = [1.0, 2.0, 3.0]",
            "%a = mul(%x, @c_1) : f32[1, 2, 2, 3]",
            "%b = add(%a, %s) : f32[1, 2, 2, 3]",
        ).replace("return %b", 'return %b as "r"'),
    )


def test_an_operand_that_would_have_to_be_transposed_instead_decides_by_its_size() -> None:
    check_declines(
        SINK,
        program(
            "%x: f32[1, 4, 4, 8], %y: f32[1, 8, 4, 4]",
            f"%t = transpose(%x) {FIRST} : f32[1, 8, 4, 4]",
            "%r = add(%t, %y) : f32[1, 8, 4, 4]",
        ),
    )
    function = sunk(
        program(
            "%x: f32[1, 4, 4, 8], %y: f32[8, 4, 1]",
            f"%t = transpose(%x) {FIRST} : f32[1, 8, 4, 4]",
            "%a = add(%t, %y) : f32[1, 8, 4, 4]",
            f"%r = transpose(%a) {LAST} : f32[1, 4, 4, 8]",
        )
    )
    assert transposed_shapes(function) == [(1, 4, 1, 8)]


def test_a_gate_of_one_number_a_channel_is_only_reshaped() -> None:
    function = sunk(
        program(
            "%x: f32[2, 4, 4, 8], %y: f32[2, 8]",
            f"%t = transpose(%x) {FIRST} : f32[2, 8, 4, 4]",
            "%g = reshape(%y) {shape = (2, 8, 1, 1)} : f32[2, 8, 1, 1]",
            "%h = sigmoid(%g) : f32[2, 8, 1, 1]",
            "%a = mul(%t, %h) : f32[2, 8, 4, 4]",
            f"%r = transpose(%a) {LAST} : f32[2, 4, 4, 8]",
        )
    )
    assert [node.op.mnemonic for node in function.nodes] == ["reshape", "sigmoid", "mul"]


def test_reshapes_that_move_short_axes_sink_as_well() -> None:
    check_rewrites(
        SINK,
        before=program(
            "%x: f32[1, 1, 1, 4]",
            "const @c : f32[4, 1, 1] = [1, 2, 3, 4]",
            "%a = reshape(%x) {shape = (1, 4, 1, 1)} : f32[1, 4, 1, 1]",
            "%b = mul(%a, @c) : f32[1, 4, 1, 1]",
            "%d = relu(%b) : f32[1, 4, 1, 1]",
            "%r = reshape(%d) {shape = (1, 1, 1, 4)} : f32[1, 1, 1, 4]",
        ),
        after=program(
            "%x: f32[1, 1, 1, 4]",
            "const @c_1 : f32[1, 1, 1, 4] = [1.0, 2.0, 3.0, 4.0]",
            "%b = mul(%x, @c_1) : f32[1, 1, 1, 4]",
            "%d = relu(%b) : f32[1, 1, 1, 4]",
        ).replace("return %d", 'return %d as "r"'),
    )


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("reduce_mean(%t) {axes = (2, 3), keepdims = true}", "f32[2, 3, 1, 1]"),
        ("reduce_mean(%t) {axes = (2, 3), keepdims = false}", "f32[2, 3]"),
        ("reduce_max(%t) {axes = (1,), keepdims = false}", "f32[2, 4, 5]"),
        ("arg_max(%t) {axis = 1, keepdims = false, last_index = false}", "i64[2, 4, 5]"),
    ],
)
def test_reductions_rename_their_axes(line: str, shape: str) -> None:
    function = sunk(
        program(
            "%x: f32[2, 4, 5, 3]",
            f"%t = transpose(%x) {FIRST} : f32[2, 3, 4, 5]",
            f"%r = {line} : {shape}",
        )
    )
    assert not transposed_shapes(function)


NORM = "batch_norm(%t, @v, @v, @v, @v) {epsilon = 0.001, axis = 1}"
QUANTIZE = "quantize_linear(%t, @v) {axis = 1, dtype = u8, block_size = 0, saturate = true}"


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("softmax(%t) {axis = 1}", "f32[2, 3, 4, 5]"),
        ("concat(%t, %t) {axis = 1}", "f32[2, 6, 4, 5]"),
        ("slice(%t) {starts = (0, 1, 0, 0), extents = (2, 1, 4, 5), steps = (1, 1, 1, 1)}", None),
        ("pad(%t) {before = (0, 0, 1, 0), after = (0, 0, 0, 0), mode = edge}", "f32[2, 3, 5, 5]"),
        ("tile(%t) {repeats = (1, 2, 1, 1)}", "f32[2, 6, 4, 5]"),
        (NORM, "f32[2, 3, 4, 5]"),
        (QUANTIZE, "u8[2, 3, 4, 5]"),
        ("expand(%t) {shape = (2, 3, 4, 5)}", "f32[2, 3, 4, 5]"),
        ("layer_norm(%t, @m, none) {axis = 1, epsilon = 0.1}", "f32[2, 3, 4, 5]"),
        ("where(@b, %t, @v1)", "f32[2, 3, 4, 5]"),
    ],
)
def test_ops_work_on_renamed_axes(line: str, shape: str | None) -> None:
    shape = shape or "f32[2, 1, 4, 5]"
    dtype, extents = shape.split("[")
    n, c, h, w = extents[:-1].split(", ")
    function = sunk(
        program(
            "%x: f32[2, 4, 5, 3]",
            "const @v : f32[3] = [1, 2, 3]",
            "const @v1 : f32[3, 1, 1] = [1, 2, 3]",
            "const @m : f32[3, 4, 1] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]",
            "const @b : bool[1, 5] = [true, false, true, false, true]",
            f"%t = transpose(%x) {FIRST} : f32[2, 3, 4, 5]",
            f"%a = {line} : {shape}",
            f"%r = transpose(%a) {LAST} : {dtype}[{n}, {h}, {w}, {c}]",
        )
    )
    assert not transposed_shapes(function)


def test_only_the_shuffle_of_channels_moves_data() -> None:
    function = sunk(
        program(
            "%x: f32[1, 5, 5, 6]",
            f"%t = transpose(%x) {FIRST} : f32[1, 6, 5, 5]",
            "%a = reshape(%t) {shape = (1, 2, 3, 5, 5)} : f32[1, 2, 3, 5, 5]",
            "%b = transpose(%a) {perm = (0, 2, 1, 3, 4)} : f32[1, 3, 2, 5, 5]",
            "%c = reshape(%b) {shape = (1, 6, 5, 5)} : f32[1, 6, 5, 5]",
            "%d = relu(%c) : f32[1, 6, 5, 5]",
            f"%r = transpose(%d) {LAST} : f32[1, 5, 5, 6]",
        )
    )
    assert transposed_shapes(function) == [(1, 5, 5, 3, 2)]


def test_patches_need_no_transpose() -> None:
    check_rewrites(
        SINK,
        before=program(
            "%x: f32[2, 3, 3, 8]",
            f"%t = transpose(%x) {FIRST} : f32[2, 8, 3, 3]",
            "%a = reshape(%t) {shape = (2, 8, 9)} : f32[2, 8, 9]",
            "%b = transpose(%a) {perm = (0, 2, 1)} : f32[2, 9, 8]",
            "%r = exp(%b) : f32[2, 9, 8]",
        ),
        after=program(
            "%x: f32[2, 3, 3, 8]",
            "%a = reshape(%x) {shape = (2, 9, 8)} : f32[2, 9, 8]",
            "%r = exp(%a) : f32[2, 9, 8]",
        ),
    )


@pytest.mark.parametrize("flag", ["false", "true"])
def test_a_flattened_map_meets_reordered_weights(flag: str) -> None:
    shape = "12, 2" if flag == "false" else "2, 12"
    elements = ", ".join(map(str, range(24)))
    function = sunk(
        program(
            "%x: f32[3, 2, 2, 3]",
            f"const @w : f32[{shape}] = [{elements}]",
            "const @c : f32[12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]",
            f"%t = transpose(%x) {FIRST} : f32[3, 3, 2, 2]",
            "%a = reshape(%t) {shape = (3, 12)} : f32[3, 12]",
            "%b = add(%a, @c) : f32[3, 12]",
            "%d = relu(%b) : f32[3, 12]",
            f"%r = matmul(%d, @w) {{transpose_lhs = false, transpose_rhs = {flag}}} : f32[3, 2]",
        )
    )
    assert not transposed_shapes(function)


def test_a_product_transposes_by_itself() -> None:
    function = sunk(
        program(
            "%x: f32[2, 4, 3], %y: f32[2, 4, 5]",
            "%t = transpose(%x) {perm = (0, 2, 1)} : f32[2, 3, 4]",
            "%a = exp(%t) : f32[2, 3, 4]",
            f"%r = matmul(%a, %y) {PLAIN} : f32[2, 3, 5]",
        )
    )
    assert not transposed_shapes(function)


def test_one_transpose_for_two_results_does_not_become_two() -> None:
    check_declines(
        SINK,
        """
        func @main(%x: f32[2, 3]) {
          %t = transpose(%x) {perm = (1, 0)} : f32[3, 2]
          %a = exp(%t) : f32[3, 2]
          %b = relu(%t) : f32[3, 2]
          return %a, %b
        }
        """,
    )


def test_a_transpose_that_some_users_need_serves_only_those() -> None:
    check_rewrites(
        SINK,
        before="""
        func @main(%x: f32[2, 3]) {
          %t = transpose(%x) {perm = (1, 0)} : f32[3, 2]
          %a = exp(%t) : f32[3, 2]
          %b = transpose(%a) {perm = (1, 0)} : f32[2, 3]
          return %t, %b
        }
        """,
        after="""
        func @main(%x: f32[2, 3]) {
          %t = transpose(%x) {perm = (1, 0)} : f32[3, 2]
          %a = exp(%x) : f32[2, 3]
          return %t, %a as "b"
        }
        """,
    )


def test_fewer_bytes_are_transposed_above_a_conversion() -> None:
    check_rewrites(
        SINK,
        before=program(
            "%x: u8[1, 3, 8, 8]",
            "%a = cast(%x) {dtype = f32, saturate = true, round_mode = up} : f32[1, 3, 8, 8]",
            f"%r = transpose(%a) {LAST} : f32[1, 8, 8, 3]",
        ),
        after=program(
            "%x: u8[1, 3, 8, 8]",
            f"%x_1 = transpose(%x) {LAST} : u8[1, 8, 8, 3]",
            "%a = cast(%x_1) {dtype = f32, saturate = true, round_mode = up} : f32[1, 8, 8, 3]",
        ).replace("return %a", 'return %a as "r"'),
    )


def test_predicates_stay_with_what_they_are_about() -> None:
    check_rewrites(
        SINK,
        before=program(
            "%x: f32[2, 3], %p: bool[]",
            "%t = transpose(%x) {perm = (1, 0)} : f32[3, 2]",
            "%r = exp(%t) if %p : f32[3, 2]",
        ),
        after=program(
            "%x: f32[2, 3], %p: bool[]",
            "%r = exp(%x) if %p : f32[2, 3]",
            "%r_2 = transpose(%r) {perm = (1, 0)} if %p : f32[3, 2]",
        ).replace("return %r_2", 'return %r_2 as "r"'),
    )


def test_empty_values_are_left_alone() -> None:
    check_declines(
        SINK,
        program(
            "%x: f32[2, 0, 3]",
            "%t = transpose(%x) {perm = (2, 1, 0)} : f32[3, 0, 2]",
            "%r = exp(%t) : f32[3, 0, 2]",
        ),
    )


def test_values_with_scales_along_an_axis_are_left_alone() -> None:
    quantized = "i8[3, 2; axis 1, scales (0.5, 0.25), offsets (0, 0)]"
    check_declines(
        SINK,
        program(
            "%x: i8[2, 3; axis 0, scales (0.5, 0.25), offsets (0, 0)]",
            f"%t = transpose(%x) {{perm = (1, 0)}} : {quantized}",
            f"%r = abs(%t) : {quantized}",
        ),
    )


def test_no_constant_is_copied() -> None:
    weights = np.ones((3, 2, 2), np.float32)
    text = program(
        "%x: f32[1, 2, 2, 3]",
        "const @c : f32[3, 2, 2]",
        f"%t = transpose(%x) {FIRST} : f32[1, 3, 2, 2]",
        "%r = mul(%t, @c) : f32[1, 3, 2, 2]",
    )
    module = parse_module(text, {"c": weights})
    assert SINK.run(module.main)
    assert np.shares_memory(module.main.constants()[0].data, weights)


def test_a_batch_norm_and_the_moments_that_it_takes_follow_the_channels() -> None:
    function = sunk(
        program(
            "%x: f32[2, 4, 4, 3], %s: f32[3], %b: f32[3]",
            f"%t = transpose(%x) {FIRST} : f32[2, 3, 4, 4]",
            "%mean, %variance = channel_moments(%t) {axis = 1} : f32[3], f32[3]",
            "%n = batch_norm(%t, %s, %b, %mean, %variance) {epsilon = 0.1, axis = 1}"
            " : f32[2, 3, 4, 4]",
            f"%r = transpose(%n) {LAST} : f32[2, 4, 4, 3]",
        )
    )
    assert transposed_shapes(function) == []


def test_a_transpose_of_rows_goes_through_a_product_with_a_matrix() -> None:
    text = program(
        "%x: f32[2, 5, 4], %w: f32[4, 6]",
        "%t = transpose(%x) {perm = (1, 0, 2)} : f32[5, 2, 4]",
        "%m = matmul(%t, %w) {transpose_lhs = false, transpose_rhs = false} : f32[5, 2, 6]",
        "%r = reshape(%m) {shape = (5, 2, 3, 2)} : f32[5, 2, 3, 2]",
        "%y = transpose(%r) {perm = (1, 2, 0, 3)} : f32[2, 3, 5, 2]",
    )
    before, after = parse_module(text).main, parse_module(text).main
    assert SinkTransposes().run(after)
    assert [node.op.mnemonic for node in after.nodes] == ["matmul", "reshape", "transpose"]
    assert_same_meaning(before, after)
