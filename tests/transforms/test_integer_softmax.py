"""Softmax and attention between bytes, without floats."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Function, parse_module, run_function
from afterglow.transforms.integer_only import INTEGER_ONLY
from afterglow.types import Array
from tests.transforms.rewriting import check_declines, program

REAL = "{axis = 1, dtype = f32, block_size = 0}"
STORED = "{axis = 1, dtype = u8, block_size = 0, saturate = true}"
CONSTANTS = (
    *("const @s : f32[] = [0.06]", "const @z : u8[] = [121]"),
    *("const @r : f32[] = [0.03]", "const @o : u8[] = [130]", "const @p : f32[] = [0.003921569]"),
)
HEADS = "[1, 2, 5, 8]"


def attention(mask: str = "", more: str = "", causal: str = "false", shared: int = 2) -> str:
    keys = f"[1, {shared}, 9, 8]"
    return program(
        f"%a: u8{HEADS}, %b: u8{keys}, %c: u8{keys}{more}",
        *CONSTANTS,
        "const @bias : f32[1, 1, 1, 9] = [0, 0, -1.5, 0, -10000, 0, 0.25, 0, 0]",
        f"%q = dequantize_linear(%a, @s, @z) {REAL} : f32{HEADS}",
        f"%k = dequantize_linear(%b, @s, @z) {REAL} : f32{keys}",
        f"%v = dequantize_linear(%c, @s, @z) {REAL} : f32{keys}",
        f"%m = attention(%q, %k, %v{mask}) {{scale = 0.35, causal = {causal}}} : f32{HEADS}",
        f"%y = quantize_linear(%m, @r, @o) {STORED} : u8{HEADS}",
    )


def softmax(axis: int) -> str:
    return program(
        "%x: u8[6, 40]",
        *CONSTANTS,
        f"%v = dequantize_linear(%x, @s, @z) {REAL} : f32[6, 40]",
        f"%e = softmax(%v) {{axis = {axis}}} : f32[6, 40]",
        f"%y = quantize_linear(%e, @p) {STORED} : u8[6, 40]",
    )


def random_inputs(function: Function) -> list[Array]:
    random = np.random.default_rng(3)
    return [
        random.integers(0, 256, x.type.shape).astype(np.uint8)
        if x.type.dtype.is_integer
        else (random.random(x.type.shape) > 0.3).astype(x.type.dtype.numpy)
        for x in function.inputs
    ]


@pytest.mark.parametrize(
    "text",
    [
        softmax(-1),
        softmax(0),
        attention(),
        attention(causal="true"),
        attention(shared=1),
        attention(", @bias"),
        attention(", %i", ", %i: f32[1, 1, 5, 9]"),
        attention(", %i", ", %i: bool[1, 1, 5, 9]"),
        attention(", %i", ", %i: bool[1, 1, 1, 9]", causal="true"),
    ],
)
def test_results_are_at_most_one_step_from_those_of_floats(text: str) -> None:
    module = parse_module(text)
    inputs = random_inputs(module.main)
    wanted = run_function(module.main, inputs)[0].astype(int)
    assert INTEGER_ONLY.run(module.main)
    kinds = {str(node.results[0].type.dtype) for node in module.main.nodes}
    assert kinds <= {"u8", "i16", "i32", "i64", "bool"}
    found = run_function(module.main, inputs)[0].astype(int)
    assert np.abs(found - wanted).max() <= 1
    assert len(set(wanted.reshape(-1))) > 5


def test_a_query_that_sees_no_key_gives_zero() -> None:
    module = parse_module(attention(", %i", ", %i: bool[1, 1, 5, 9]"))
    inputs = random_inputs(module.main)
    inputs[-1][0, 0, 2] = False
    assert INTEGER_ONLY.run(module.main)
    assert np.all(run_function(module.main, inputs)[0][:, :, 2] == 130)


def test_what_is_not_bytes_stays() -> None:
    text = softmax(-1).replace("%x: u8", "%x: i32").replace(", @z", "")
    check_declines(INTEGER_ONLY, text)
