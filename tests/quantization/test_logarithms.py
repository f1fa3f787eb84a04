"""Layers that stay in floats because logarithms read what they compute."""

from __future__ import annotations

import pytest

from afterglow.graph import parse_module
from afterglow.quantization.logarithms import before_logarithms

MATMUL = "{transpose_lhs = false, transpose_rhs = false}"


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("mul(%a, %a)", {"a", "m", "b", "c"}),
        ("clip(%a) {low = 0.001, high = none}", {"a", "m", "b", "c"}),
        ("relu(%a)", {"b", "c"}),
        ("sigmoid(%a)", {"b", "c"}),
    ],
)
def test_errors_reach_a_logarithm_through_all_but_activations(
    between: str, found: set[str]
) -> None:
    module = parse_module(
        f"""
        const @w : f32[2, 2] = [1, 2, 3, 4]
        func @main(%x: f32[3, 2]) {{
          %a = matmul(%x, @w) {MATMUL} : f32[3, 2]
          %m = {between} : f32[3, 2]
          %b = matmul(%m, @w) {MATMUL} : f32[3, 2]
          %c = reshape(%b) {{shape = (2, 3)}} : f32[2, 3]
          %y = log(%c) : f32[2, 3]
          %z = matmul(%x, @w) {MATMUL} : f32[3, 2]
          return %y, %z
        }}
        """
    )
    names = {node.name for node in before_logarithms(module.main)}
    assert names - {"m"} == found - {"m"}
