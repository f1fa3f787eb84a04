"""Matrix products whose extents are known only as the code runs."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Builder, Function, Module
from afterglow.ops.activation import Gelu
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, ranged


def extent(name: str, most: int, least: int = 1) -> int:
    return ranged(Dim(name, least, most))


def weights(*shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def linear(shape: tuple[int, ...], columns: int, *, heavy: bool = False) -> Module:
    """A product with weights and bias; `heavy` with steps after it that go through memory."""
    module = Module()
    main = Function("main", module)
    b = Builder(main)
    product = b.emit(
        MatMul(),
        main.input("x", TensorType(f32, shape)),
        module.constant("w", weights(shape[-1], columns)),
    )
    made = b.emit(Add(), product, module.constant("b", weights(columns)))
    main.output("y", b.emit(Gelu(), made) if heavy else made)
    return module


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize(("depth", "columns"), [(48, 64), (20, 70), (400, 33)])
def test_rows_of_any_number_meet_constant_weights(depth: int, columns: int, heavy: bool) -> None:
    runs = [{"s": n} for n in (1, 2, 3, 6, 7, 13, 31, 69, 70)]
    check_ranged(linear((extent("s", 70), depth), columns, heavy=heavy), runs)


def test_batches_and_positions_are_rows() -> None:
    module = linear((extent("b", 5), extent("s", 40), 24), 40)
    check_ranged(module, [{"b": b, "s": s} for b in (1, 3, 5) for s in (1, 7, 40)])
