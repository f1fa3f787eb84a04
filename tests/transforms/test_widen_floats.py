"""Narrow floats are computed wide."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

import afterglow
from afterglow.graph import parse_module, print_module
from afterglow.transforms.widen_floats import WidenFloats
from tests.frontends.models import FLOAT, info, model, node
from tests.transforms.rewriting import check_declines, check_rewrites

CAST = "{dtype = %s, saturate = true, round_mode = up}"
TO_F16, TO_F32 = CAST % "f16", CAST % "f32"


def test_only_what_enters_and_leaves_is_rounded() -> None:
    check_rewrites(
        WidenFloats(),
        before="""
            func @main(%x: f16[2]) {
              %a = exp(%x) : f16[2]
              %y = neg(%a) : f16[2]
              return %y
            }
        """,
        after=f"""
            func @main(%x: f16[2]) {{
              %x.f32 = cast(%x) {TO_F32} : f32[2]
              %a = exp(%x.f32) : f32[2]
              %y = neg(%a) : f32[2]
              %cast_1 = cast(%y) {TO_F16} : f16[2]
              return %cast_1 as "y"
            }}
        """,
        tolerance=1e-2,
    )


def test_casts_of_the_model_between_floats_go() -> None:
    module = parse_module(
        f"""
        func @main(%x: f32[2]) {{
          %h = cast(%x) {TO_F16} : f16[2]
          %e = exp(%h) : f16[2]
          %w = cast(%e) {TO_F32} : f32[2]
          return %w
        }}
        """
    )
    WidenFloats().run(module.main)
    assert "f16" not in print_module(module)


def test_what_only_moves_narrow_numbers_stays() -> None:
    check_declines(
        WidenFloats(),
        """
        const @table : bf16[4, 2] = [1, 2, 3, 4, 5, 6, 7, 8]
        func @main(%i: i64[3]) {
          %y = gather(@table, %i) {axis = 0} : bf16[3, 2]
          return %y
        }
        """,
    )


def test_bits_stay_what_they_are() -> None:
    check_declines(
        WidenFloats(),
        """
        func @main(%x: f16[2]) {
          %y = bit_cast(%x) {dtype = bf16} : bf16[2]
          return %y
        }
        """,
    )


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_rounding_errors_do_not_add_up_on_the_cpu(dtype: str) -> None:
    lines = ["%a0 = add(%x, %x) : T[64]"]
    lines += [f"%a{i + 1} = add(%a{i}, %x) : T[64]" for i in range(30)]
    text = "func @main(%x: T[64]) {\n" + "\n".join(lines) + "\nreturn %a30\n}"
    module = parse_module(text.replace("T", dtype))
    numpy_type = module.main.inputs[0].type.dtype.numpy
    x = np.linspace(0.1, 0.9, 64).astype(numpy_type)
    want = (x.astype(np.float32) * 32).astype(numpy_type)
    np.testing.assert_array_equal(afterglow.compile(module, optimize=False)(x), want)
    assert (afterglow.compile(module, backend="interpreter", optimize=False)(x) != want).any()


def test_weights_of_what_is_computed_wide_stay_narrow() -> None:
    check_declines(
        WidenFloats(),
        """
        const @w : bf16[2, 2] = [1.0, 2.0, 3.0, 4.0]
        func @main(%x: f32[1, 2]) {
          %y = matmul(%x, @w) {transpose_lhs = false, transpose_rhs = false} : f32[1, 2]
          return %y
        }
        """,
    )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_constants_are_widened_before_they_are_folded(dtype: type) -> None:
    """x times a third, made of constants by the model, is not rounded to the narrow type."""
    one, three = (np.full(4, number).astype(dtype) for number in (1, 3))
    narrow = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        node("Div", ["one", "three"], ["third"]),
        node("Cast", ["x"], ["small"], to=narrow),
        node("Mul", ["small", "third"], ["product"]),
        node("Cast", ["product"], ["y"], to=FLOAT),
    ]
    proto = model(
        nodes,
        inputs=[info("x", (4,))],
        outputs=[info("y", (4,))],
        constants={"one": one, "three": three},
    )
    y = afterglow.compile(proto, cache=False)(np.ones(4, np.float32))
    np.testing.assert_allclose(y, 1 / 3, rtol=1e-7)
