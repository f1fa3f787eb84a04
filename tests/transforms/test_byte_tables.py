"""Functions of one byte that become tables."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import parse_module, run_function
from afterglow.ops.fixed_point import ByteTable
from afterglow.passes import RewritePass
from afterglow.transforms.byte_tables import ALL_BYTE_TABLES, BYTE_TABLES
from tests.transforms.rewriting import check_declines, program

REAL = "{axis = 1, dtype = f32, block_size = 0}"
STORED = "{axis = 1, dtype = u8, block_size = 0, saturate = true}"
CONSTANTS = (
    *("const @s : f32[] = [0.05]", "const @z : i8[] = [3]", "const @half : f32[1] = [0.5]"),
    *("const @t : f32[] = [0.01]", "const @n : u8[] = [9]"),
)


def chain(*lines: str, signature: str = "%x: i8[1, 256]") -> str:
    return program(
        signature,
        *CONSTANTS,
        f"%v = dequantize_linear(%x, @s, @z) {REAL} : f32[1, 256]",
        *lines,
        f"%y = quantize_linear(%f, @t, @n) {STORED} : u8[1, 256]",
    )


MISH = (
    "%e = softplus(%v) : f32[1, 256]",
    "%h = tanh(%e) : f32[1, 256]",
    "%m = mul(%v, %h) : f32[1, 256]",
    "%f = add(%m, @half) : f32[1, 256]",
)
CLIP = ("%f = clip(%v) {low = -1.0, high = 1.0} : f32[1, 256]",)


@pytest.mark.parametrize(
    ("step", "lines"), [(BYTE_TABLES, MISH), (ALL_BYTE_TABLES, MISH), (ALL_BYTE_TABLES, CLIP)]
)
def test_a_function_of_one_byte_is_looked_up(step: RewritePass, lines: tuple[str, ...]) -> None:
    module = parse_module(chain(*lines))
    x = np.arange(-128, 128).astype(np.int8).reshape(1, 256)
    wanted = run_function(module.main, [x])
    assert step.run(module.main)
    assert [type(node.op) for node in module.main.nodes] == [ByteTable]
    np.testing.assert_array_equal(run_function(module.main, [x])[0], wanted[0])


def test_what_is_computed_as_fast_is_computed() -> None:
    check_declines(BYTE_TABLES, chain(*CLIP))


def test_a_function_of_two_bytes_has_no_table() -> None:
    other = f"%w = dequantize_linear(%o, @s, @z) {REAL} : f32[1, 256]"
    lines = (other, "%g = mul(%v, %w) : f32[1, 256]", "%f = tanh(%g) : f32[1, 256]")
    text = chain(*lines, signature="%x: i8[1, 256], %o: i8[1, 256]")
    check_declines(ALL_BYTE_TABLES, text)


def test_a_function_that_differs_along_an_axis_has_no_table() -> None:
    slopes = f"const @a : f32[256] = [{', '.join(['0.5'] * 256)}]"
    text = chain("%p = mul(%v, @a) : f32[1, 256]", "%f = tanh(%p) : f32[1, 256]")
    check_declines(ALL_BYTE_TABLES, f"{slopes}\n{text}")
