"""Means of dequantized values that become means of integers."""

from __future__ import annotations

import numpy as np

from afterglow.graph import parse_module, run_function
from afterglow.transforms.average_integers import AVERAGE_INTEGERS
from tests.transforms.rewriting import check_declines, check_rewrites, program

DEQUANTIZE = "{axis = 1, dtype = f32, block_size = 0}"
CONSTANTS = ("const @s : f32[] = [0.5]", "const @z : u8[] = [3]")


def mean(columns: int) -> str:
    return program(
        f"%x: u8[2, {columns}]",
        *CONSTANTS,
        f"%v = dequantize_linear(%x, @s, @z) {DEQUANTIZE} : f32[2, {columns}]",
        "%y = reduce_mean(%v) {axes = (1,), keepdims = false} : f32[2]",
    )


def test_means_are_scaled_afterwards() -> None:
    check_rewrites(
        AVERAGE_INTEGERS,
        before=mean(5),
        after=f"""
            const @s : f32[] = [0.5]
            const @one : f32[] = [1.0]
            const @y.zero : u8[] = [3]
            func @main(%x: u8[2, 5]) {{
              %y_1 = dequantize_linear(%x, @one, @y.zero) {DEQUANTIZE} : f32[2, 5]
              %y_2 = reduce_mean(%y_1) {{axes = (1,), keepdims = false}} : f32[2]
              %y = mul(%y_2, @s) : f32[2]
              return %y
            }}
        """,
    )


def test_many_numbers_of_16_bits_are_summed_as_integers() -> None:
    text = program(
        "%x: i16[1, 600, 2]",
        CONSTANTS[0],
        f"%v = dequantize_linear(%x, @s) {DEQUANTIZE} : f32[1, 600, 2]",
        "%y = reduce_mean(%v) {axes = (1,), keepdims = true} : f32[1, 1, 2]",
    )
    module = parse_module(text)
    x = np.random.default_rng(1).integers(-32768, 32768, (1, 600, 2)).astype(np.int16)
    assert AVERAGE_INTEGERS.run(module.main)
    assert "i32" in {str(node.results[0].type.dtype) for node in module.main.nodes}
    (found,) = run_function(module.main, [x])
    assert np.allclose(found, x.mean(1, keepdims=True) * 0.5, rtol=1e-5)


def test_sums_that_might_be_rounded_stay() -> None:
    check_declines(AVERAGE_INTEGERS, mean(2**16 + 2**10))
