"""Convolutions with few result channels."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.kernels.conv.dots import suits_dots
from afterglow.ops.activation import Relu, Sigmoid
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from tests.backends.cpu.kernels.harness import Bench, best_kernel

Shape = tuple[int, ...]
FEW = [
    ((1, 9, 13, 32), (1, 1, 1, 32), 1, 0),
    ((2, 7, 5, 37), (2, 1, 1, 37), 1, 0),
    ((1, 6, 40, 16), (3, 3, 3, 16), 1, 1),
    ((1, 11, 19, 21), (1, 5, 5, 21), 2, 2),
    ((3, 70, 24), (2, 3, 24), 1, 0),
    ((1, 1, 1, 64), (1, 1, 1, 64), 1, 0),
]


def random(*shape: int, dtype: str = "f4") -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.standard_normal(shape).astype(dtype)


def bench_of(
    x: Shape, weight: Shape, stride: int, pad: int, target: str = "host", dtype: str = "f4"
) -> Bench:
    axes = len(x) - 2
    bench = Bench(Target.of(target))
    op = Conv((stride,) * axes, (pad,) * 2 * axes, (1,) * axes, 1)
    bench.step(
        op,
        bench.input(random(*x, dtype=dtype), gaps=pad == 0),
        bench.constant(random(*weight, dtype=dtype)),
        bench.constant(random(weight[0], dtype=dtype)),
        stored=True,
        gaps=True,
    )
    assert suits_dots(bench.steps[0], bench.target)
    return bench


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
@pytest.mark.parametrize(("x", "weight", "stride", "pad"), FEW, ids=str)
@pytest.mark.parametrize("pieces", [1, 3])
def test_few_results(
    x: Shape, weight: Shape, stride: int, pad: int, target: str, pieces: int
) -> None:
    bench_of(x, weight, stride, pad, target).check(pieces, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["f8", "f2"])
def test_element_types(dtype: str) -> None:
    narrow = dtype == "f2"
    bench = bench_of((1, 6, 21, 16), (3, 3, 3, 16), 1, 1, dtype=dtype)
    bench.check(2, rtol=1e-2 if narrow else 1e-9, atol=5e-2 if narrow else 1e-9)


@pytest.mark.parametrize("results", [1, 2, 3])
def test_steps_after(results: int) -> None:
    bench = Bench()
    x, weight = bench.input(random(2, 5, 19, 20)), bench.constant(random(results, 1, 1, 20))
    made = bench.step(Conv((1, 1), (0,) * 4, (1, 1), 1), x, weight)
    shifted = bench.step(Add(), made, bench.constant(random(results)))
    joined = bench.step(Add(), shifted, bench.input(random(2, 5, 19, results)))
    bench.step(Sigmoid(), bench.step(Relu(), joined), stored=True)
    bench.check(3, rtol=1e-4, atol=1e-5)


def test_one_result_of_a_large_image_is_shared_by_threads() -> None:
    kernel = best_kernel(bench_of((1, 128, 128, 32), (1, 1, 1, 32), 1, 0).job(), Target.host())
    assert kernel.functions[0].units >= 2


def test_what_does_not_suit() -> None:
    bench = Bench()
    x, host = bench.input(random(1, 5, 19, 20)), Target.host()
    op = Conv((1, 1), (0,) * 4, (1, 1), 1)
    bench.step(op, x, bench.constant(random(8, 1, 1, 20)), stored=True)
    bench.step(op, x, bench.input(random(1, 1, 1, 20)), stored=True)
    assert [suits_dots(step, host) for step in bench.steps] == [False, False]


@pytest.mark.parametrize("target", ["aarch64", "riscv64", "wasm32"])
def test_other_machines(target: str) -> None:
    bench = bench_of((1, 6, 40, 16), (3, 3, 3, 16), 1, 1)
    assert compile_module(best_kernel(bench.job(), Target.of(target)).module, Target.of(target))
