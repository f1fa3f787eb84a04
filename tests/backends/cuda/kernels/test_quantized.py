"""Products and convolutions of bytes, whose sums are exact."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton", reason="triton is not installed: pip install afterglow[cuda]")

from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from tests.backends.cuda.kernels.jobs import Made, check
from tests.backends.cuda.kernels.tiles import RANDOM, in_tiles, integers, product


def _factors(columns: int):
    scale = (RANDOM.random(columns) * 0.01).astype("f4")
    return scale, RANDOM.integers(-999, 999, columns).astype("i4")


@pytest.mark.parametrize(
    ("lhs", "rhs", "op", "splits"),
    [
        (("u1", 70, 128), ("i1", 128, 50), QuantizedMatMul(lhs_zero_point=7), 1),
        (("i1", 70, 128), ("i1", 50, 128), QuantizedMatMul(transpose_rhs=True), 2),
        (("u1", 2, 7, 100), ("u1", 100, 50), QuantizedMatMul(False, False, 255, 100), 1),
        (("i1", 7, 300), ("u1", 300, 50), QuantizedMatMul(False, False, -3, 128), 3),
    ],
)
def test_zero_points_are_taken_from_sums(lhs, rhs, op, splits):
    made = product(op, integers(*lhs), integers(*rhs), *_factors(50), behind=False)
    check(made, 1e-6, in_tiles(made, 32, 32, 64, splits))


@pytest.mark.parametrize(
    ("x", "weight", "attributes"),
    [
        (("u1", 1, 9, 10, 64), ("i1", 40, 3, 3, 64), {"x_zero_point": 9}),
        (("u1", 1, 9, 10, 24), ("u1", 40, 3, 3, 24), {"x_zero_point": 9, "weight_zero_point": 77}),
        (("i1", 1, 19, 20, 3), ("i1", 40, 7, 7, 3), {"x_zero_point": -9}),
        (("u1", 1, 9, 10, 64), ("i1", 40, 3, 3, 32), {"x_zero_point": 9, "groups": 2}),
    ],
)
def test_padding_holds_the_zero_point(x, weight, attributes):
    op = QuantizedConv((2, 1), (1,) * 4, (1, 1), **attributes)
    made = product(op, integers(*x), integers(*weight), *_factors(40), behind=False)
    check(made, 1e-6, in_tiles(made, 64, 32, 64))


@pytest.mark.parametrize("scale", [True, False])
def test_a_zero_point_may_be_known_only_when_it_runs(scale):
    made = Made()
    factors, bias = (made.constant(each) for each in _factors(40))
    x, weight = (
        made.given(integers("u1", 1, 9, 10, 64)),
        made.constant(integers("i1", 40, 3, 3, 64)),
    )
    zero = made.given(np.array(77, "u1"))
    op = QuantizedConv((1, 1), (1,) * 4, (1, 1))
    made.add(op, x, weight, factors if scale else None, bias, zero, anchor=True)
    check(made, 1e-6, in_tiles(made, 32, 32, 32, 2))
