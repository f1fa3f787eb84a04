"""Products whose rows are quantized as they come."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.graph import Builder, Function, Module, parse_module, print_module, run_function
from afterglow.ops.linear import MatMul
from afterglow.quantization.dynamic import QuantizeProducts
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, ranged

TEXT = """
const @w : f32[2, 2] = [127.0, 0.5, 1.0, 63.5]

func @main(%x: f32[3, 2]) {
  %y = matmul(%x, @w) {transpose_lhs = false, transpose_rhs = false} : f32[3, 2]
  return %y
}
"""


def product(rows: tuple[int, ...], depth: int, columns: int, transposed: bool) -> Module:
    module = Module()
    function = Function("main", module)
    x = function.input("x", TensorType(f32, (*rows, depth)))
    shape = (columns, depth) if transposed else (depth, columns)
    weight = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    b = Builder(function)
    function.output("y", b.emit(MatMul(transpose_rhs=transposed), x, module.constant("w", weight)))
    return module


def test_a_row_is_divided_by_its_largest_number() -> None:
    module = parse_module(TEXT)
    assert QuantizeProducts(least_size=1).run(module.main)
    text = print_module(module)
    assert "const @w.stored : i8[2, 2] = [127, 1, 1, 127]" in text
    assert "const @w.scale : f32[2] = [1.0, 0.5]" in text
    x = np.array([[127.0, 1.0], [-2.54, 0.02], [0.0, 0.0]], np.float32)
    (y,) = run_function(module.main, [x])
    np.testing.assert_allclose(y, x @ np.array([[127, 0.5], [1, 63.5]]), 1e-6, 1e-6)


def test_small_weights_stay_in_floats() -> None:
    assert not QuantizeProducts().run(parse_module(TEXT).main)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows", [(1,), (5, 7)])
def test_compiled_products_are_those_of_the_interpreter(
    rows: tuple[int, ...], transposed: bool
) -> None:
    module = product(rows, 192, 160, transposed)
    x = np.random.default_rng(1).standard_normal((*rows, 192)).astype(np.float32)
    made, meant = (
        afterglow.compile(module, backend=backend, precision="dynamic_int8", cache=False)(x)
        for backend in ("cpu", "interpreter")
    )
    np.testing.assert_array_equal(made, meant)
    floats = afterglow.compile(module, cache=False)(x)
    assert 0 < np.abs(made - floats).max() < 0.03 * np.abs(floats).max()


def test_rows_may_be_ranged() -> None:
    extents = [{"s": n} for n in (1, 2, 7, 64)]
    ranged_rows = product((ranged(Dim("s", 1, 64)),), 192, 160, transposed=False)
    assert QuantizeProducts().run(ranged_rows.main)
    check_ranged(ranged_rows, extents)
