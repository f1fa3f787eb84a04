"""Functions of floats that become functions of integers."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Node, parse_module, print_module
from afterglow.quantization.convert import Convert
from afterglow.types import Array, Quantization
from afterglow.types.dtype import u8

MATMUL = "{transpose_lhs = false, transpose_rhs = false}"
FLOAT = f"""
const @w : f32[2, 2] = [1.0, 2.0, -3.0, 4.0]
const @b : f32[2] = [0.5, -1.0]

func @main(%x: f32[3, 2]) {{
  %p = matmul(%x, @w) {MATMUL} : f32[3, 2]
  %y = add(%p, @b) : f32[3, 2]
  return %y as "y"
}}
"""


def halves(anchor: Node, weight: Array, axis: int) -> tuple[Array, Array]:
    """Weights as multiples of a half."""
    return np.rint(weight * 2).astype(np.int8), np.full(weight.shape[axis], 0.5, np.float32)


def test_what_a_product_reads_and_its_weight_and_bias_are_dequantized() -> None:
    module = parse_module(FLOAT)
    assert Convert({"x": Quantization((0.25,), (7,))}, u8, halves).run(module.main)
    text = print_module(module)
    for line in (
        "const @x.scale : f32[] = [0.25]",
        "const @x.zero : u8[] = [7]",
        "const @w.stored : i8[2, 2] = [2, 4, -6, 8]",
        "const @p.bias.stored : i32[2] = [4, -8]",
        "const @p.bias.scale : f32[2] = [0.125, 0.125]",
        "%p = matmul(%x.real, %w) {transpose_lhs = false, transpose_rhs = false} : f32[3, 2]",
        "%y = add(%p, %p.bias) : f32[3, 2]",
    ):
        assert line in text


def test_a_point_without_parameters_stays() -> None:
    module = parse_module(FLOAT)
    Convert({}, u8, halves).run(module.main)
    assert print_module(module) == print_module(parse_module(FLOAT))


def test_a_bias_that_is_too_large_for_the_sums_stays_in_floats() -> None:
    module = parse_module(FLOAT.replace("[0.5, -1.0]", "[0.5, 1e30]"))
    Convert({"x": Quantization((0.25,), (7,))}, u8, halves).run(module.main)
    assert "%y = add(%p, @b) : f32[3, 2]" in print_module(module)
