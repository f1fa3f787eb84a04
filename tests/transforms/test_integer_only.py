"""Sums of scaled integers that are quantized without floats."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Function, parse_module, run_function
from afterglow.transforms.integer_only import INTEGER_ONLY
from tests.transforms.rewriting import check_declines, program

REAL = "{axis = 1, dtype = f32, block_size = 0}"
STORED = "{axis = 1, dtype = u8, block_size = 0, saturate = true}"
PRODUCT = "{transpose_lhs = false, transpose_rhs = false, lhs_zero_point = 7, rhs_zero_point = 0}"
CONSTANTS = (
    *("const @s : f32[] = [0.01]", "const @z : u8[] = [3]", "const @t : f32[] = [0.02]"),
    *("const @n : u8[] = [90]", "const @w : i8[3, 2] = [5, -70, 127, 3, -9, 44]"),
    *("const @ws : f32[2] = [0.0001, 0.00007]", "const @b : i32[2] = [-400, 900]"),
)
SUMS = f"%p = quantized_matmul(%x, @w, @ws, @b) {PRODUCT} : f32[9, 2]"
OTHER = f"%v = dequantize_linear(%y, @s, @z) {REAL} : f32[9, 2]"


def quantized(*lines: str, more: str = "") -> str:
    return program(
        f"%x: u8[9, 3], %y: u8[9, 2]{more}",
        *CONSTANTS,
        *lines,
        f"%q = quantize_linear(%f, @t, @n) {STORED} : u8[9, 2]",
    )


def kinds(function: Function) -> set[str]:
    return {str(node.results[0].type.dtype) for node in function.nodes}


@pytest.mark.parametrize(
    "lines",
    [
        (SUMS.replace("%p", "%f"),),
        (SUMS, OTHER, "%f = add(%p, %v) : f32[9, 2]"),
        (SUMS, OTHER, "%a = add(%p, %v) : f32[9, 2]", "%f = relu(%a) : f32[9, 2]"),
        (SUMS, "%f = clip(%p) {low = -0.5, high = 0.75} : f32[9, 2]"),
        (
            OTHER,
            f"%u = dequantize_linear(%y, @t) {REAL} : f32[9, 2]",
            "%f = mul(%v, %u) : f32[9, 2]",
        ),
        (
            OTHER,
            "%m = reduce_mean(%v) {axes = (0,), keepdims = true} : f32[1, 2]",
            "%f = add(%v, %m) : f32[9, 2]",
        ),
    ],
)
def test_no_float_is_left_and_results_are_at_most_one_step_away(lines: tuple[str, ...]) -> None:
    module = parse_module(quantized(*lines))
    random = np.random.default_rng(4)
    inputs = [random.integers(0, 256, x.type.shape).astype(np.uint8) for x in module.main.inputs]
    wanted = run_function(module.main, inputs)[0].astype(int)
    assert INTEGER_ONLY.run(module.main)
    assert kinds(module.main) <= {"u8", "i32"}
    found = run_function(module.main, inputs)[0].astype(int)
    assert np.abs(found - wanted).max() <= 1
    assert len(set(wanted.reshape(-1))) > 2


def test_windows_with_fewer_elements_have_the_same_scale() -> None:
    pool = (
        "{kernel = (3, 3), strides = (2, 2), pads = (1, 1, 1, 1), dilations = (1, 1), "
        "ceil_mode = false, count_include_pad = false}"
    )
    text = program(
        "%x: u8[1, 6, 5, 4]",
        *CONSTANTS[:4],
        f"%v = dequantize_linear(%x, @s, @z) {REAL} : f32[1, 6, 5, 4]",
        f"%m = avg_pool(%v) {pool} : f32[1, 3, 3, 4]",
        f"%q = quantize_linear(%m, @s, @z) {STORED} : u8[1, 3, 3, 4]",
    )
    module = parse_module(text)
    x = np.random.default_rng(2).integers(0, 256, (1, 6, 5, 4)).astype(np.uint8)
    wanted = run_function(module.main, [x])[0].astype(int)
    assert INTEGER_ONLY.run(module.main)
    assert kinds(module.main) <= {"u8", "i32"}
    assert np.abs(run_function(module.main, [x])[0].astype(int) - wanted).max() <= 1


def test_what_comes_from_floats_stays() -> None:
    lines = (SUMS, "%f = add(%p, %i) : f32[9, 2]")
    check_declines(INTEGER_ONLY, quantized(*lines, more=", %i: f32[9, 2]"))
