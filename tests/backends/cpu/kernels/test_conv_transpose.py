"""Transposed convolutions: strides, dilations, groups, pads and types of all sorts."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.codegen.write import plans_for
from afterglow.backends.policy import DEFAULT
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import ConvTranspose
from afterglow.ops.elementwise import Add
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.convolution import CASES
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench, best_kernel

Shape = tuple[int, ...]
TARGETS = ["host", "x86-64-v3", "x86-64"]
UNET = ConvTranspose((2, 2), (0,) * 4, (1, 1))
GEOMETRIES = [
    (UNET, (1, 5, 16, 24), (24, 2, 2, 40)),
    (ConvTranspose((2, 2), (1,) * 4, (1, 1)), (2, 5, 6, 7), (7, 4, 4, 33)),
    (ConvTranspose((2, 2), (1,) * 4, (1, 1), 1, (1, 1)), (1, 6, 7, 8), (8, 3, 3, 16)),
    (ConvTranspose((3, 2), (1, 0, 2, 1), (2, 3)), (1, 5, 6, 3), (3, 3, 2, 5)),
    (ConvTranspose((1, 1), (1,) * 4, (1, 1)), (1, 7, 31, 5), (5, 3, 3, 3)),
    (ConvTranspose((4, 4), (0,) * 4, (1, 1)), (1, 3, 3, 4), (4, 2, 2, 3)),
    (ConvTranspose((2, 2), (1,) * 4, (1, 1), 4), (1, 5, 5, 8), (8, 4, 4, 6)),
    (ConvTranspose((2, 2), (1,) * 4, (1, 1), 6), (1, 5, 5, 6), (6, 4, 4, 1)),
    (ConvTranspose((8,), (4, 4), (1,)), (1, 70, 9), (9, 16, 20)),
    (ConvTranspose((2, 1, 2), (0, 1, 1, 0, 1, 0), (1, 1, 1)), (1, 3, 4, 3, 5), (5, 3, 3, 2, 4)),
    (ConvTranspose((1, 1), (0,) * 4, (1, 1)), (1, 1, 1, 1), (1, 1, 1, 1)),
    (ConvTranspose((2, 2), (1,) * 4, (1, 1)), (1, 5, 9, 32), (32, 4, 4, 1)),
    (ConvTranspose((2, 2), (1,) * 4, (1, 1), 2), (2, 4, 11, 70), (70, 3, 3, 3)),
]
FEW_RESULTS = GEOMETRIES[-2:]


def random(*shape: int, dtype: type = np.float32) -> Array:
    rng = np.random.default_rng(sum(shape))
    return rng.uniform(-2, 2, shape).astype(dtype)


def bench_of(
    op: ConvTranspose, x: Shape, weight: Shape, target: str = "host", dtype: type = np.float32
) -> Bench:
    bench = Bench(Target.of(target))
    results = weight[-1] * op.groups
    operands = (
        bench.input(random(*x, dtype=dtype)),
        bench.constant(random(*weight, dtype=dtype)),
        bench.constant(random(results, dtype=dtype)),
    )
    bench.step(op, *operands, stored=True)
    return bench


@pytest.mark.parametrize(
    "case", [case for case in CASES if isinstance(case.op, ConvTranspose)], ids=str
)
@pytest.mark.parametrize("constant", [True, False])
def test_cases_of_the_op(case: Case, constant: bool) -> None:
    bench = Bench()
    x, *others = case.inputs()
    make = bench.constant if constant else bench.input
    operands = [None if a is None else make(a) for a in others]
    bench.step(case.op, bench.input(x), *operands, stored=True)
    if not bench.job().is_empty:
        bench.check(pieces=3, rtol=1e-2 if x.dtype == np.float16 else 1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("op", "x", "weight"), GEOMETRIES, ids=str)
def test_geometries(op: ConvTranspose, x: Shape, weight: Shape, target: str) -> None:
    bench_of(op, x, weight, target).check(rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("op", "x", "weight"), GEOMETRIES, ids=str)
def test_pieces_change_nothing(op: ConvTranspose, x: Shape, weight: Shape) -> None:
    bench = bench_of(op, x, weight)
    (whole,) = (result.copy() for result in bench.run(1))
    (pieces,) = bench.run(3)
    np.testing.assert_array_equal(whole, pieces)


@pytest.mark.parametrize(("op", "x", "weight"), [*GEOMETRIES[:4], *FEW_RESULTS], ids=str)
def test_gaps_and_a_weight_that_is_not_known(op: ConvTranspose, x: Shape, weight: Shape) -> None:
    bench = Bench()
    operands = bench.input(random(*x), gaps=True), bench.input(random(*weight), gaps=True)
    bench.step(op, *operands, stored=True, gaps=True)
    bench.check(pieces=2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 2)])
def test_without_strides_it_is_a_convolution(kernel: Shape, constant: bool, target: str) -> None:
    bench = Bench(Target.of(target))
    op = ConvTranspose((1, 1), (1, 0, 0, 1) if kernel == (3, 3) else (0, 1, 0, 0), (1, 1))
    make = bench.constant if constant else partial(bench.input, gaps=True)
    operands = bench.input(random(2, 12, 14, 64)), make(random(64, *kernel, 40))
    y = bench.step(op, *operands, bench.input(random(40)))
    bench.step(Relu(), y, stored=True)
    (best, *_) = plans_for(bench.job(), bench.target, DEFAULT)
    assert best.algorithm == ("winograd" if kernel == (3, 3) else "direct")
    bench.check(pieces=3, rtol=1e-4, atol=1e-5)


def test_the_same_buffer_as_x_and_as_weight() -> None:
    bench = Bench()
    x = bench.input(random(5, 3, 3, 5))
    bench.step(ConvTranspose((1, 1), (1,) * 4, (1, 1)), x, x, stored=True)
    bench.check(rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64])
def test_types(dtype: type) -> None:
    tolerance = 1e-2 if dtype == np.float16 else 1e-5
    for geometry in (*GEOMETRIES[:2], FEW_RESULTS[1]):
        bench_of(*geometry, dtype=dtype).check(rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("op", "shape", "weight"), [GEOMETRIES[0], FEW_RESULTS[1]], ids=str)
def test_steps_after_it(op: ConvTranspose, shape: Shape, weight: Shape) -> None:
    bench = Bench()
    y = bench.step(op, bench.input(random(*shape), gaps=True), bench.constant(random(*weight)))
    residual = bench.input(random(*y.type.shape), gaps=True)
    bench.step(Relu(), bench.step(Add(), y, residual), stored=True, gaps=True)
    bench.check(pieces=3, rtol=1e-4)


@pytest.mark.parametrize("name", ["aarch64", "cortex-m4", "riscv64", "wasm32"])
def test_other_machines(name: str) -> None:
    bench, target = bench_of(*GEOMETRIES[1]), Target.of(name)
    assert compile_module(best_kernel(bench.job(), target).module, target)
