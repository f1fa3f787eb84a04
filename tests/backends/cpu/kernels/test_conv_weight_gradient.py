"""Gradients of convolutions' weights: strides, dilations, groups, pads and types of all sorts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.codegen.write import plans_for
from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.conv_weight_gradient import weight_gradient
from afterglow.backends.cpu.kernels.table import ENTRIES
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.backends.policy import DEFAULT, Policy
from afterglow.ops.convolution import ConvWeightGradient
from afterglow.ops.elementwise import Mul, Sub
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.convolution import CASES
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench, best_kernel, waits_in
from tests.backends.cpu.kernels.ranged import check_op

Shape = tuple[int, ...]


def slopes_of(
    kernel: Shape, strides: Shape, pads: Shape, dilations: Shape = (1, 1), groups: int = 1
) -> ConvWeightGradient:
    return ConvWeightGradient(strides, pads, dilations, groups, kernel)


SAME = slopes_of((3, 3), (1, 1), (1,) * 4)
GEOMETRIES = [
    (SAME, (3, 2, 2, 40), 29),
    (SAME, (2, 9, 20, 35), 17),
    (slopes_of((3, 3), (2, 2), (1,) * 4), (2, 8, 7, 32), 33),
    (slopes_of((1, 1), (2, 2), (0,) * 4), (3, 9, 12, 70), 40),
    (slopes_of((7, 7), (2, 2), (3,) * 4), (2, 15, 22, 3), 15),
    (slopes_of((3, 2), (1, 3), (2, 0, 0, 1), (2, 2)), (2, 7, 12, 5), 4),
    (slopes_of((3, 3), (1, 1), (1,) * 4, groups=2), (2, 5, 6, 64), 6),
    (slopes_of((3, 3), (1, 2), (1,) * 4, groups=3), (2, 5, 6, 9), 6),
    (slopes_of((3, 3), (2, 1), (1,) * 4, groups=37), (2, 9, 8, 37), 37),
    (slopes_of((3,), (2,), (1, 2), (1,)), (1, 700, 17), 5),
    (slopes_of((3,), (1,), (1, 1), (1,)), (1, 700, 3), 5),
    (slopes_of((2, 3, 2), (1, 2, 1), (0, 1, 1, 0, 1, 0), (1,) * 3), (1, 3, 4, 3, 18), 4),
]


def random(*shape: int, dtype: type = np.float32) -> Array:
    rng = np.random.default_rng(sum(shape))
    return rng.uniform(-2, 2, shape).astype(dtype)


def bench_of(
    op: ConvWeightGradient,
    shape: Shape,
    results: int,
    target: str = "host",
    dtype: type = np.float32,
    *,
    gaps: bool = False,
) -> Bench:
    bench = Bench(Target.of(target))
    counts = op.windows((results, *op.kernel, 1)).counts(shape[1:-1])
    slopes = random(shape[0], *counts, results, dtype=dtype)
    operands = bench.input(random(*shape, dtype=dtype), gaps=gaps), bench.input(slopes, gaps=gaps)
    bench.step(op, *operands, stored=True, gaps=gaps)
    return bench


@pytest.mark.parametrize(
    "case", [case for case in CASES if isinstance(case.op, ConvWeightGradient)], ids=str
)
def test_cases_of_the_op(case: Case) -> None:
    bench = Bench()
    x, slopes = case.inputs()
    assert x is not None
    assert slopes is not None
    bench.step(case.op, bench.input(x), bench.input(slopes), stored=True)
    bench.check(pieces=3, rtol=1e-2 if x.dtype == np.float16 else 1e-5)


@pytest.mark.parametrize(("op", "shape", "results"), GEOMETRIES[1:9:3], ids=str)
def test_vectors_of_256_bits(op: ConvWeightGradient, shape: Shape, results: int) -> None:
    bench_of(op, shape, results, "x86-64-v3").check(pieces=2)


@pytest.mark.parametrize(("op", "shape", "results"), GEOMETRIES, ids=str)
def test_geometries(op: ConvWeightGradient, shape: Shape, results: int) -> None:
    bench = bench_of(op, shape, results)
    (whole,) = (result.copy() for result in bench.run(1))
    bench.check(pieces=3)
    np.testing.assert_array_equal(whole, bench.memory[bench.steps[0].outs[0]].reshape(whole.shape))


@pytest.mark.parametrize(("op", "shape", "results"), GEOMETRIES[2:9:2], ids=str)
def test_gaps(op: ConvWeightGradient, shape: Shape, results: int) -> None:
    bench_of(op, shape, results, gaps=True).check(pieces=2)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8])
def test_types(dtype: type) -> None:
    for geometry in (GEOMETRIES[5], GEOMETRIES[8]):
        tolerance = 1e-2 if dtype == np.float16 else 1e-5
        bench_of(*geometry, dtype=dtype).check(rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("op", "shape", "results"), [GEOMETRIES[1], GEOMETRIES[4]], ids=str)
def test_weights_are_updated_where_their_gradient_is_made(
    op: ConvWeightGradient, shape: Shape, results: int
) -> None:
    bench = Bench()
    counts = op.windows((results, *op.kernel, 1)).counts(shape[1:-1])
    slopes = bench.input(random(shape[0], *counts, results))
    gradient = bench.step(op, bench.input(random(*shape)), slopes)
    weight = bench.input(random(*gradient.type.shape))
    step = bench.step(Mul(), gradient, bench.input(np.float32(0.01)))
    bench.step(Sub(), weight, step, stored=True)
    bench.check(pieces=3)


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
@pytest.mark.parametrize("size", [2, 4])
def test_winograd(size: int, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def only(r: KernelRequest) -> list[Algorithm]:
        listed = weight_gradient(r)
        return [way for way in listed if way.settings.get("size") == size]

    entry = ENTRIES[ConvWeightGradient]
    monkeypatch.setitem(ENTRIES, ConvWeightGradient, replace(entry, algorithms=only))
    bench = bench_of(slopes_of((3, 3), (1, 1), (1, 0, 2, 1)), (2, 9, 12, 37), 47, target)
    (whole,) = (result.copy() for result in bench.run(1))
    bench.check(pieces=3, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(whole, bench.memory[bench.steps[0].outs[0]].reshape(whole.shape))


def test_tiles_of_both_operands_are_transformed_side_by_side() -> None:
    bench = bench_of(SAME, (4, 12, 12, 64), 64)
    kernel = best_kernel(bench.job(), bench.target)
    assert len(kernel.functions) == 3
    assert waits_in(kernel) == 1


def test_winograd_is_for_results_that_need_not_be_exact() -> None:
    bench = bench_of(SAME, (4, 12, 12, 64), 64)
    free, exact = (plans_for(bench.job(), bench.target, p) for p in (DEFAULT, Policy(exact=True)))
    assert free[0].algorithm == "winograd"
    assert [plan.algorithm for plan in exact] == ["direct"]


def test_ranged_images() -> None:
    runs = {"b": 1, "s": 1}, {"b": 3, "s": 5}, {"b": 4, "s": 9}
    check_op(SAME, "b, s, 2, 20", "b, s, 2, 7", runs=runs, threads=1)
    check_op(SAME, "b, 3, s, 3", "b, 3, s, 4", runs=runs, threads=2)
    apart = slopes_of((3, 3), (1, 1), (1,) * 4, groups=9)
    check_op(apart, "b, 3, s, 9", "b, 3, s, 9", runs=runs, threads=2)


@pytest.mark.parametrize("name", ["aarch64", "cortex-m4"])
def test_other_machines(name: str) -> None:
    target = Target.of(name)
    for geometry in (GEOMETRIES[4], GEOMETRIES[8]):
        kernel = best_kernel(bench_of(*geometry).job(), target)
        assert compile_module(kernel.module, target)
