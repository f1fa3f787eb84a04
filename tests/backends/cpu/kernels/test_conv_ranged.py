"""Convolutions of a ranged number of images."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Builder, Function, Module
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, ranged

N = ranged(Dim("n", 1, 9))
BATCHES = [{"n": n} for n in (1, 2, 3, 5, 8, 9)]


def convolution(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    strides: tuple[int, ...] = (1, 1),
    pad: int = 0,
    dilations: tuple[int, ...] = (1, 1),
    groups: int = 1,
) -> Module:
    """relu(conv(x) + bias + r), for constant weights."""
    rng = np.random.default_rng(7)
    module = Module()
    function = Function("main", module)
    b = Builder(function)
    scale = 1 / np.sqrt(np.prod(weight[1:]))
    factors = b.constant((rng.standard_normal(weight) * scale).astype(np.float32), "w")
    bias = b.constant(rng.standard_normal(weight[0]).astype(np.float32), "b")
    op = Conv(strides, (pad,) * 4, dilations, groups)
    made = b.emit(op, function.input("x", TensorType(f32, x)), factors, bias)
    total = b.emit(Add(), made, function.input("r", made.type))
    function.output("o", b.emit(Relu(), total))
    return module


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(convolution((N, 8, 8, 32), (48, 1, 1, 32)), id="single-pixels"),
        pytest.param(convolution((N, 1, 1, 40), (33, 1, 1, 40)), id="one-pixel-an-image"),
        pytest.param(convolution((N, 2, 3, 40), (32, 1, 1, 40), (2, 2)), id="few-pixels"),
        pytest.param(convolution((N, 9, 9, 8), (24, 3, 3, 8), (2, 2), 1), id="strided"),
        pytest.param(convolution((N, 9, 10, 20), (20, 3, 3, 20), (1, 1), 2, (2, 2)), id="dilated"),
        pytest.param(convolution((N, 7, 7, 16), (32, 3, 3, 8), (1, 1), 1, (1, 1), 2), id="grouped"),
        pytest.param(convolution((N, 9, 9, 16), (2, 3, 3, 16), (1, 1), 1), id="few-results"),
        pytest.param(convolution((N, 12, 13, 20), (20, 3, 3, 1), (2, 2), 1, (1, 1), 20), id="dw"),
    ],
)
def test_a_ranged_number_of_images_is_convolved(module: Module) -> None:
    check_ranged(module, BATCHES)


@pytest.mark.parametrize("channels", [(32, 32), (64, 288)])
def test_winograds_algorithm_shares_panels_or_blocks_as_the_number_of_images_asks(
    channels: tuple[int, int],
) -> None:
    inner, results = channels
    n = ranged(Dim("n", 1, 20))
    module = convolution((n, 10, 9, inner), (results, 3, 3, inner), (1, 1), 1)
    check_ranged(module, [{"n": k} for k in (1, 2, 7, 20)])
