"""Rounding errors of kernels that sum up: they do not grow with the depth, nor with the bias."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.micro.partial_sums import FEW_TERMS, TERMS, block_size
from afterglow.backends.policy import Policy
from afterglow.graph import Op
from afterglow.ops.attention import Attention
from afterglow.ops.convolution import Conv, ConvTranspose
from afterglow.ops.linear import MatMul
from afterglow.ops.pooling import AvgPool
from afterglow.ops.recurrent import LSTM
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench

TARGETS = ["host", "x86-64-v3"]
FLAT = 4.0e-7
"""Errors of sums in blocks, over the spread of the results; one sum of depth 2,048 has 8e-7."""
Shape = tuple[int, ...]


def conv(kernel: int, groups: int = 1) -> Conv:
    return Conv((1, 1), (kernel // 2,) * 4, (1, 1), groups)


def transposed(kernel: int, stride: int, pad: int) -> ConvTranspose:
    return ConvTranspose((stride, stride), (pad,) * 4, (1, 1), 1)


def error(
    op: Op,
    x: Array,
    *others: Array,
    target: str = "host",
    exact: bool = True,
    constant: bool = True,
) -> float:
    """The root mean square of the errors, over the standard deviation of the results."""
    bench = Bench(Target.of(target))
    bench.policy = Policy(exact=exact)
    operands = [bench.constant(a) if constant else bench.input(a) for a in others]
    bench.steps_of(op, bench.input(x), *operands)
    wanted = op.evaluate(*(a.astype(np.float64) for a in (x, *others)))
    first = wanted[0] if isinstance(wanted, tuple) else wanted
    return float(np.sqrt(np.square(bench.run()[0] - first).mean()) / first.std())


def normal(*shape: int, scale: float = 1.0) -> Array:
    rng = np.random.default_rng(len(shape) * 1000 + sum(shape))
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def test_short_sums_are_one_block_and_long_ones_even_blocks() -> None:
    assert block_size(FEW_TERMS) == FEW_TERMS
    assert block_size(4 * TERMS) == TERMS
    assert block_size(1000, step=8) == 256
    assert block_size(9, terms=100) == 3
    assert block_size(1024, terms=1 / 4) == 1024
    assert block_size(3, terms=10 * TERMS) == 1


LONG: dict[str, tuple[Op, Shape, Shape]] = {
    "matmul": (MatMul(), (32, 2048), (2048, 64)),
    "matmul, depth that no block divides": (MatMul(), (32, 2051), (2051, 40)),
    "conv 1x1": (conv(1), (1, 6, 6, 2048), (40, 1, 1, 2048)),
    "conv 1x1, odd channels": (conv(1), (1, 6, 6, 2047), (40, 1, 1, 2047)),
    "conv 3x3": (conv(3), (1, 6, 6, 256), (32, 3, 3, 256)),
    "conv 3x3, odd channels": (conv(3), (1, 6, 6, 257), (32, 3, 3, 257)),
    "conv 9x9": (conv(9), (1, 12, 12, 13), (32, 9, 9, 13)),
    "conv 3x3 in groups": (conv(3, 2), (1, 6, 6, 512), (32, 3, 3, 256)),
    "transposed conv 4x4": (transposed(4, 2, 1), (1, 6, 6, 512), (512, 4, 4, 32)),
    "transposed conv 3x3": (transposed(3, 2, 0), (1, 6, 6, 1024), (1024, 3, 3, 32)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("name", LONG)
def test_errors_of_products_stay_the_same_however_deep_they_are(
    name: str, constant: bool, target: str
) -> None:
    op, x, weight = LONG[name]
    assert error(op, normal(*x), normal(*weight), target=target, constant=constant) < FLAT


@pytest.mark.parametrize("target", TARGETS)
def test_errors_of_a_matrix_by_a_vector_do_not_grow_with_the_depth(target: str) -> None:
    x, weight = normal(1, 8192), normal(8192, 256)
    assert error(MatMul(), x, weight, target=target) < 6e-7


def test_errors_of_winograd_and_strassen_do_not_grow_with_the_depth() -> None:
    assert error(conv(3), normal(1, 14, 14, 1024), normal(32, 3, 3, 1024), exact=False) < 2e-6
    assert error(MatMul(), normal(128, 4096), normal(4096, 512), exact=False) < 1e-6


@pytest.mark.parametrize("target", TARGETS)
def test_errors_of_attention_do_not_grow_with_the_number_of_keys(target: str) -> None:
    for queries in (1, 64):
        q, k, v = normal(1, 1, queries, 64), normal(1, 1, 4096, 64), normal(1, 1, 4096, 63)
        assert error(Attention(0.125), q, k, v, target=target, constant=False) < 6.5e-7


@pytest.mark.parametrize("target", TARGETS)
def test_errors_of_means_over_large_windows_are_small(target: str) -> None:
    for kernel in ((56, 56), (3000, 4)):
        x = np.abs(normal(1, *kernel, 16))
        bench = Bench(Target.of(target))
        op = AvgPool(kernel, (1, 1), (0,) * 4, (1, 1))
        bench.step(op, bench.input(x), stored=True)
        wanted = op.evaluate(x.astype(np.float64))
        assert np.abs(bench.run()[0] / wanted - 1).max() < 6e-7


BIASED: dict[str, tuple[Op, Shape, Shape, bool]] = {
    "direct 3x3": (conv(3), (1, 8, 8, 32), (32, 3, 3, 32), True),
    "direct 1x1": (conv(1), (1, 8, 8, 288), (37, 1, 1, 288), True),
    "in groups": (conv(3, 2), (1, 8, 8, 64), (32, 3, 3, 32), True),
    "depthwise": (conv(5, 40), (1, 16, 16, 40), (40, 5, 5, 1), True),
    "few channels": (conv(3), (1, 8, 8, 128), (2, 3, 3, 128), True),
    "winograd": (conv(3), (1, 28, 28, 64), (64, 3, 3, 64), False),
    "strassen": (conv(1), (1, 28, 28, 512), (256, 1, 1, 512), False),
    "transposed": (transposed(4, 2, 1), (1, 8, 8, 64), (64, 4, 4, 32), True),
    "transposed, few channels": (transposed(4, 2, 1), (1, 8, 8, 64), (64, 4, 4, 1), True),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BIASED)
def test_a_large_bias_is_rounded_to_once(name: str, target: str) -> None:
    op, shape, weight_shape, exact = BIASED[name]
    x, weight = normal(*shape), normal(*weight_shape)
    results = weight_shape[-1] if isinstance(op, ConvTranspose) else weight_shape[0]
    spread = float(op.evaluate(x, weight).std())
    bias = np.full(results, 100 * spread, np.float32)
    assert error(op, x, weight, bias, target=target, exact=exact) < 4e-6


def test_the_bias_of_a_recurrent_layer_is_added_last() -> None:
    width = 256
    x, gates = normal(4, 2, width, scale=0.1), normal(4 * width, width, scale=0.06)
    assert error(LSTM(), x, gates, gates, normal(4 * width, scale=2.0)) < 1.5e-7
