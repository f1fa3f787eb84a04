"""Layer norms and RMS norms between bytes, without floats."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import parse_module, run_function
from afterglow.transforms.integer_only import INTEGER_ONLY
from tests.transforms.rewriting import check_declines, program

REAL = "{axis = 1, dtype = f32, block_size = 0}"
STORED = "{axis = 1, dtype = u8, block_size = 0, saturate = true}"
SHAPE = "[7, 3, 5]"


def norm(line: str, scale: float = 0.02, shape: str = SHAPE, more: str = "") -> str:
    return program(
        f"%x: u8{shape}{more}",
        f"const @s : f32[] = [{scale}]",
        *("const @z : u8[] = [100]", "const @r : f32[] = [0.025]", "const @o : u8[] = [128]"),
        "const @g : f32[5] = [1, -0.7, 0.01, 2.5, 0]",
        "const @b : f32[5] = [0.1, -0.3, 0.5, 0, -1]",
        f"%v = dequantize_linear(%x, @s, @z) {REAL} : f32{shape}",
        f"%n = {line} : f32{shape}",
        f"%y = quantize_linear(%n, @r, @o) {STORED} : u8{shape}",
    )


LAYER_NORM = "layer_norm(%v, @g, @b) {axis = -1, epsilon = 0.00001}"


@pytest.mark.parametrize("spread", [255, 20, 2])
@pytest.mark.parametrize(
    "text",
    [
        norm(LAYER_NORM),
        norm("layer_norm(%v, @g) {axis = -1, epsilon = 0.01}", scale=0.5),
        norm("layer_norm(%v) {axis = -2, epsilon = 0.00001}"),
        norm("rms_norm(%v, @g) {axis = -1, epsilon = 0.00001}"),
        norm("rms_norm(%v) {axis = -2, epsilon = 0.01}", scale=0.01),
    ],
)
def test_results_are_at_most_one_step_from_those_of_floats(text: str, spread: int) -> None:
    module = parse_module(text)
    shape = module.main.inputs[0].type.shape
    x = np.random.default_rng(4).integers(0, spread + 1, shape).astype(np.uint8)
    x[0] = 7  # no variance
    wanted = run_function(module.main, [x])[0].astype(int)
    assert INTEGER_ONLY.run(module.main)
    assert {str(n.results[0].type.dtype) for n in module.main.nodes} <= {"u8", "i32", "i64"}
    found = run_function(module.main, [x])[0].astype(int)
    assert np.abs(found - wanted).max() <= 1
    assert len(set(wanted.reshape(-1))) > 1


def test_long_rows_are_exact_enough() -> None:
    line = "layer_norm(%v) {axis = -1, epsilon = 0.00001}"
    module = parse_module(norm(line, shape="[2, 20000]"))
    x = np.random.default_rng(4).integers(0, 256, (2, 20000)).astype(np.uint8)
    wanted = run_function(module.main, [x])[0].astype(int)
    assert INTEGER_ONLY.run(module.main)
    assert np.abs(run_function(module.main, [x])[0].astype(int) - wanted).max() <= 1


@pytest.mark.parametrize(
    "text",
    [
        norm(LAYER_NORM.replace("@g", "%i"), more=", %i: f32[5]"),
        norm("layer_norm(%v) {axis = -1, epsilon = 0.00001}", shape="[1, 40000]"),
    ],
)
def test_unknown_parameters_and_too_many_terms_stay_in_floats(text: str) -> None:
    check_declines(INTEGER_ONLY, text)
