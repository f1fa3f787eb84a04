"""Fake quantizations that become quantizations."""

from __future__ import annotations

import afterglow as ag
from afterglow.transforms.store_fakes import STORE_FAKES
from tests.transforms.rewriting import check_rewrites

FAKE = "{axis = 0, dtype = u8, block_size = 0, learns = true}"
STORE = "{axis = 0, dtype = u8, block_size = 0, saturate = true}"
LOAD = "{axis = 0, dtype = f32, block_size = 0}"


def test_a_function_that_infers_stores_integers() -> None:
    head = "func @main(%x: f32[4], %scale: f32[], %zero: u8[])"
    check_rewrites(
        STORE_FAKES,
        before=f"""{head} {{
  %y = fake_quantize(%x, %scale, %zero) {FAKE} : f32[4]
  return %y
}}""",
        after=f"""{head} {{
  %y_1 = quantize_linear(%x, %scale, %zero) {STORE} : u8[4]
  %y = dequantize_linear(%y_1, %scale, %zero) {LOAD} : f32[4]
  return %y
}}""",
    )


def test_a_function_that_learns_is_left_alone() -> None:
    text = f"""state @w : f32[4]
func @main(%scale: f32[]) {{
  %y = fake_quantize(@w, %scale) {FAKE} : f32[4]
  store %y to @w
  return %y
}}"""
    module = ag.parse_module(text)
    assert not STORE_FAKES.run(module.main)
