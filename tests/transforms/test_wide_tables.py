"""Functions of 16 bits that are looked up and interpolated."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import parse_module, run_function
from afterglow.transforms.wide_tables import WIDE_TABLES
from tests.transforms.rewriting import check_declines, program

REAL = "{axis = 1, dtype = f32, block_size = 0}"
SHAPE = "[1, 65536]"


def function(name: str, dtype: str = "i16", scale: float = 0.0002, zero: int = 0) -> str:
    stored = f"{{axis = 1, dtype = {dtype}, block_size = 0, saturate = true}}"
    return program(
        f"%x: i16{SHAPE}",
        f"const @s : f32[] = [{scale}]",
        f"const @t : f32[] = [{0.0002 if dtype == 'i16' else 0.03}]",
        f"const @z : {dtype}[] = [{zero}]",
        f"%v = dequantize_linear(%x, @s) {REAL} : f32{SHAPE}",
        f"%f = {name}(%v) : f32{SHAPE}",
        f"%y = quantize_linear(%f, @t, @z) {stored} : {dtype}{SHAPE}",
    )


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (function("sigmoid"), 1),
        (function("tanh"), 2),
        (function("neg"), 1),
        (function("sigmoid", "u8", zero=7), 1),
        (function("tanh", "i8", zero=-3), 1),
        (function("exp", "u8"), 1),
    ],
)
def test_results_are_a_few_steps_of_16_bits_from_those_of_floats(text: str, steps: int) -> None:
    module = parse_module(text)
    x = np.arange(-32768, 32768).astype(np.int16).reshape(1, -1)
    wanted = run_function(module.main, [x])[0].astype(int)
    assert WIDE_TABLES.run(module.main)
    assert not any(node.results[0].type.dtype.is_float for node in module.main.nodes)
    found = run_function(module.main, [x])[0].astype(int)
    assert np.abs(found - wanted).max() <= steps
    assert len(set(wanted.reshape(-1))) > 20


def test_functions_of_bytes_are_left_to_other_tables() -> None:
    check_declines(WIDE_TABLES, function("tanh").replace("%x: i16", "%x: u8"))
