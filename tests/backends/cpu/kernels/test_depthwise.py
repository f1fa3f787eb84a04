"""Depthwise convolutions: strides, dilations, pads, any rank and type, tails and multipliers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.kernels.conv.depthwise import depthwise_algorithm, is_depthwise
from afterglow.backends.cpu.kernels.table import ENTRIES, KernelEntry
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench, best_kernel

Shape = tuple[int, ...]
HOST, AVX2, SSE = "host", "x86-64-v3", "x86-64"


def conv(kernel: int, stride: int = 1, pad: int = 0, hole: int = 1, axes: int = 2) -> Conv:
    return Conv((stride,) * axes, (pad,) * 2 * axes, (hole,) * axes, 1)


GEOMETRIES = [
    (conv(3, 1, 1), (1, 7, 9, 32), (32, 3, 3, 1)),
    (conv(3, 2, 1), (2, 8, 9, 24), (24, 3, 3, 1)),
    (Conv((2, 2), (0, 0, 1, 1), (1, 1)), (1, 8, 8, 40), (40, 3, 3, 1)),
    (Conv((2, 1), (0, 1, 2, 0), (1, 2)), (1, 7, 8, 5), (5, 3, 2, 1)),
    (conv(5, 1, 2), (1, 6, 7, 17), (17, 5, 5, 1)),
    (conv(7, 1, 3), (1, 10, 11, 19), (19, 7, 7, 1)),
    (conv(3, 1, 12, 12), (1, 9, 9, 8), (8, 3, 3, 1)),
    (conv(19, 1, 9), (1, 12, 12, 4), (4, 19, 19, 1)),
    (conv(31, 1, 15, axes=1), (1, 40, 16), (16, 31, 1)),
    (conv(3, 2, 1, axes=1), (2, 9, 3), (3, 3, 1)),
    (conv(40, 1, 0, axes=1), (1, 50, 3), (3, 40, 1)),
    (Conv((1, 2, 1), (1,) * 6, (1, 1, 1)), (1, 4, 5, 3, 6), (6, 3, 3, 3, 1)),
    (conv(3, 1, 1), (1, 6, 6, 8), (16, 3, 3, 1)),
    (conv(3, 1, 1), (1, 6, 6, 5), (15, 3, 3, 1)),
    (conv(3, 2, 1), (1, 8, 8, 1), (6, 3, 3, 1)),
    (conv(1), (1, 1, 1, 1), (1, 1, 1, 1)),
    (conv(2, 3), (1, 11, 11, 16), (16, 2, 2, 1)),
    (conv(3, 1, 1), (1, 4, 4, 600), (600, 3, 3, 1)),
]


@pytest.fixture(autouse=True)
def _only_depthwise(monkeypatch: pytest.MonkeyPatch) -> None:
    only = KernelEntry(lambda r: [depthwise_algorithm(r, 1.0)], lambda step: "depthwise")
    monkeypatch.setitem(ENTRIES, Conv, only)


def random(*shape: int, dtype: type = np.float32) -> Array:
    rng = np.random.default_rng(sum(shape))
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def grouped(op: Conv, x: Shape) -> Conv:
    return Conv(op.strides, op.pads, op.dilations, x[-1])


def bench_of(
    op: Conv, x: Shape, weight: Shape, target: str = HOST, dtype: type = np.float32
) -> Bench:
    bench = Bench(Target.of(target))
    operands = (
        bench.input(random(*x, dtype=dtype)),
        bench.constant(random(*weight, dtype=dtype)),
        bench.constant(random(weight[0], dtype=dtype)),
    )
    bench.step(grouped(op, x), *operands, stored=True)
    return bench


@pytest.mark.parametrize("target", [HOST, AVX2, SSE])
@pytest.mark.parametrize(("op", "x", "weight"), GEOMETRIES, ids=str)
def test_geometries(op: Conv, x: Shape, weight: Shape, target: str) -> None:
    bench = bench_of(op, x, weight, target)
    assert is_depthwise(bench.steps[0])
    bench.check(rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("op", "x", "weight"), GEOMETRIES[:4], ids=str)
def test_pieces_change_nothing(op: Conv, x: Shape, weight: Shape) -> None:
    bench = bench_of(op, x, weight)
    (whole,) = (result.copy() for result in bench.run(1))
    (pieces,) = bench.run(3)
    np.testing.assert_array_equal(whole, pieces)


@pytest.mark.parametrize(("op", "x", "weight"), [*GEOMETRIES[:2], *GEOMETRIES[11:14]], ids=str)
def test_gaps_and_a_weight_that_is_not_known(op: Conv, x: Shape, weight: Shape) -> None:
    bench = Bench()
    operands = bench.input(random(*x), gaps=True), bench.input(random(*weight), gaps=True)
    bench.step(grouped(op, x), *operands, stored=True, gaps=True)
    bench.check(pieces=2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", [HOST, AVX2])
@pytest.mark.parametrize(
    "dtype",
    [np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int16, np.int32, np.int64],
)
@pytest.mark.parametrize(("op", "x", "weight"), [GEOMETRIES[1], GEOMETRIES[12]], ids=str)
def test_types(op: Conv, x: Shape, weight: Shape, dtype: type, target: str) -> None:
    narrow = np.dtype(dtype).itemsize == 2
    tolerance = 3e-2 if narrow else 1e-5
    bench_of(op, x, weight, target, dtype).check(rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("channels", [16, 21])
def test_steps_after_it(channels: int) -> None:
    bench = Bench()
    x = bench.input(random(1, 7, 10, channels), gaps=True)
    op = grouped(conv(3, 1, 1), x.type.shape)
    y = bench.step(op, x, bench.constant(random(channels, 3, 3, 1)))
    biased = bench.step(Add(), y, bench.input(random(channels)))
    residual = bench.input(random(*y.type.shape), gaps=True)
    bench.step(Relu(), bench.step(Add(), biased, residual), stored=True, gaps=True)
    bench.check(pieces=3, rtol=1e-4)


@pytest.mark.parametrize("name", ["aarch64", "cortex-m4", "riscv64", "wasm32"])
def test_other_machines(name: str) -> None:
    bench, target = bench_of(*GEOMETRIES[1]), Target.of(name)
    assert compile_module(best_kernel(bench.job(), target).module, target)
