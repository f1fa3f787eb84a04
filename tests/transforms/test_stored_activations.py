"""What products with stored matrices multiply is chosen for all of them."""

import numpy as np
import pytest

from afterglow.driver.api import compile
from afterglow.graph import Builder, Function, Module
from afterglow.ops.rounded_rows import round_rows
from afterglow.ops.stored import Activations, StoredMatMul
from afterglow.support.errors import UsageError
from afterglow.transforms.stored_activations import set_activations
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.transforms.rewriting import check_declines

RNG = np.random.default_rng(3)
MATRIX = RNG.integers(-8, 8, (5, 32)).astype(np.int8)


def product(activations: Activations) -> Module:
    function = Function("main")
    b = Builder(function)
    x = function.input("x", TensorType(f32, (2, 32)))
    parts = b.constant(MATRIX), b.constant(np.ones((5, 1), np.float32))
    function.output("y", b.emit(StoredMatMul(32, activations=activations), x, *parts))
    return function.module


@pytest.mark.parametrize("given", Activations)
def test_the_option_decides_whatever_the_model_says(given: Activations) -> None:
    x = RNG.standard_normal((2, 32)).astype(np.float32)
    for name, rows in (("float32", x), ("int8", round_rows(x))):
        result = compile(product(given), activations=name, cache=False)(x)
        np.testing.assert_allclose(result, rows @ MATRIX.T.astype(np.float32), rtol=1e-5, atol=1e-4)


def test_products_that_are_as_asked_for_stay() -> None:
    check_declines(
        set_activations("int8"),
        """
            const @w : i8[1, 2] = [1, 2]
            const @s : f32[1, 1] = [1.0]
            func @main(%x: f32[3, 2]) {
              %y = stored_matmul(%x, @w, @s) OPTIONS : f32[3, 1]
              return %y
            }
        """.replace("OPTIONS", "{block_size = 2, bits = 0, activations = int8, row_block = 32}"),
    )


def test_other_kinds_are_refused() -> None:
    with pytest.raises(UsageError, match="no activations 'int4'"):
        compile(product(Activations.INT8), activations="int4", cache=False)
