"""Weights held in 16 bits: which of them, and what becomes of their readers."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Builder, Constant, Function, Module, Value, print_module, verify_module
from afterglow.ops.elementwise import Add
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.recurrent import LSTM
from afterglow.transforms.narrow_weights import LEAST_SIZE, MOST_USES, NarrowWeights
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import bf16, f16, f32, i64
from tests.transforms.rewriting import check_declines, check_rewrites

CAST = "saturate = true, round_mode = up"
SIDE = 128
"""The side of a square that is large enough to be worth it."""


def weights(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def product(rows: int, weight: Array) -> tuple[Module, Constant]:
    f = Function("main")
    b = Builder(f)
    constant = b.constant(weight, "w")
    x = f.input("x", TensorType(f32, (rows, weight.shape[0])))
    f.output("y", b.emit(MatMul(), x, constant))
    return f.module, constant


def narrowed(module: Module, dtype: DType = bf16, *, every: bool = False) -> dict[str, DType]:
    """The element types of the constants, afterwards."""
    NarrowWeights(dtype, every=every).run(module.main)
    verify_module(module)
    return {name: constant.type.dtype for name, constant in module.constants.items()}


def test_a_product_takes_them_as_they_are() -> None:
    check_rewrites(
        NarrowWeights(f16, every=True),
        before="""
            const @w : f32[2, 2] = [1.0, 0.33333334, -2.5, 65504.0]
            func @main(%x: f32[1, 2]) {
              %y = matmul(%x, @w) {transpose_lhs = false, transpose_rhs = false} : f32[1, 2]
              return %y
            }
        """,
        after="""
            const @w : f16[2, 2] = [1.0, 0.333251953125, -2.5, 65504.0]
            func @main(%x: f32[1, 2]) {
              %y = matmul(%x, @w) {transpose_lhs = false, transpose_rhs = false} : f32[1, 2]
              return %y
            }
        """,
        tolerance=1e-3,
    )


def test_rows_of_a_table_are_widened_after_they_were_picked() -> None:
    check_rewrites(
        NarrowWeights(bf16, every=True),
        before="""
            const @table : f32[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
            func @main(%i: i64[2, 1]) {
              %rows = gather(@table, %i) {axis = 0} : f32[2, 1, 2]
              %y = neg(%rows) : f32[2, 1, 2]
              return %y
            }
        """,
        after=f"""
            const @table : bf16[3, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
            func @main(%i: i64[2, 1]) {{
              %rows.stored = gather(@table, %i) {{axis = 0}} : bf16[2, 1, 2]
              %rows = cast(%rows.stored) {{dtype = f32, {CAST}}} : f32[2, 1, 2]
              %y = neg(%rows) : f32[2, 1, 2]
              return %y
            }}
        """,
    )


def test_numbers_are_rounded_to_the_nearest_ties_to_even() -> None:
    ties = np.float32(1.0) + np.arange(4, dtype=np.float32) * np.float32(2.0**-8)
    module, _ = product(1, np.resize(ties, (SIDE, SIDE)))
    narrowed(module)
    (constant,) = module.constants.values()
    found = constant.data.astype(np.float32).reshape(-1)[:4]
    np.testing.assert_array_equal(found, np.float32([1.0, 1.0, 1.0078125, 1.015625]))


@pytest.mark.parametrize("dtype", [bf16, f16], ids=str)
def test_only_where_memory_takes_the_time(dtype: DType) -> None:
    most = MOST_USES[dtype]
    for rows, every, held in ((most, False, dtype), (most + 1, False, f32), (999, True, dtype)):
        module, _ = product(rows, weights(SIDE, SIDE))
        assert narrowed(module, dtype, every=every) == {"w": held}


def test_small_ones_stay() -> None:
    module, constant = product(1, weights(SIDE - 1, SIDE))
    assert constant.type.size < LEAST_SIZE
    assert narrowed(module) == {"w": f32}
    assert narrowed(module, every=True) == {"w": bf16}


@pytest.mark.parametrize(
    ("dtype", "number", "held"),
    [(f16, 65504.0, f16), (f16, -65505.0, f32), (bf16, 65505.0, bf16), (bf16, 3.4e38, f32)],
)
def test_a_number_that_does_not_fit_keeps_its_constant_wide(
    dtype: DType, number: float, held: DType
) -> None:
    weight = weights(SIDE, SIDE)
    weight[3, 5] = number
    module, _ = product(1, weight)
    assert narrowed(module, dtype) == {"w": held}


def test_not_a_number_stays_so() -> None:
    weight = weights(SIDE, SIDE)
    weight[0, 0] = np.nan
    module, _ = product(1, weight)
    assert narrowed(module, f16) == {"w": f16}
    (constant,) = module.constants.values()
    assert np.isnan(constant.data[0, 0])


def test_a_constant_with_other_readers_stays() -> None:
    module, constant = product(1, weights(SIDE, SIDE))
    b = Builder(module.main)
    y = module.main.outputs[0].value
    module.main.output("z", b.emit(Add(), constant, y))
    assert narrowed(module, every=True) == {"w": f32}


def test_a_constant_that_is_an_output_stays() -> None:
    module, constant = product(1, weights(SIDE, SIDE))
    module.main.output("w", constant)
    assert narrowed(module, every=True) == {"w": f32}


def test_readers_of_both_kinds_share_one_constant() -> None:
    module, constant = product(1, weights(SIDE, SIDE))
    b = Builder(module.main)
    index = module.main.input("i", TensorType(i64, (1,)))
    module.main.output("row", b.emit(Gather(0), constant, index))
    assert narrowed(module) == {"w": bf16}
    assert "cast" in print_module(module)


def test_recurrent_layers_have_two_kinds_of_weights() -> None:
    f = Function("main")
    b = Builder(f)
    x = f.input("x", TensorType(f32, (50, 2, SIDE)))
    given: list[Value] = [b.constant(weights(4 * SIDE, SIDE), name) for name in "wr"]
    f.output("y", b.emit_all(LSTM(), x, *given)[0])
    assert narrowed(f.module) == {"w": f32, "r": bf16}
    assert narrowed(f.module, every=True) == {"w": bf16, "r": bf16}


def test_one_constant_may_be_both_operands_of_a_node() -> None:
    f = Function("main")
    b = Builder(f)
    x = f.input("x", TensorType(f32, (2, 1, SIDE)))
    constant = b.constant(weights(4 * SIDE, SIDE), "w")
    f.output("y", b.emit_all(LSTM(), x, constant, constant)[0])
    assert narrowed(f.module) == {"w": bf16}


def test_doubles_and_integers_are_left_alone() -> None:
    check_declines(
        NarrowWeights(bf16, every=True),
        """
        const @w : f64[2, 2] = [1.0, 2.0, 3.0, 4.0]
        const @table : i64[2, 2] = [1, 2, 3, 4]
        func @main(%x: f64[1, 2], %i: i64[1]) {
          %y = matmul(%x, @w) {transpose_lhs = false, transpose_rhs = false} : f64[1, 2]
          %z = gather(@table, %i) {axis = 0} : i64[1, 2]
          return %y, %z
        }
        """,
    )
