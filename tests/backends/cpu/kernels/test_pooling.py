"""Pooling: all attributes, ranks and types, and windows over everything."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.pooling import (
    AvgPool,
    LpPool,
    MaxPool,
    MaxPoolGradient,
    MaxPoolWithIndices,
    Pool,
)
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.pooling import CASES
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench, best_kernel

Shape = tuple[int, ...]
TARGETS = ["host", "x86-64-v3", "x86-64"]
KINDS = [MaxPool, MaxPoolWithIndices, AvgPool, LpPool]
GEOMETRIES = [
    (((3, 3), (2, 2), (1,) * 4, (1, 1)), (1, 9, 12, 40)),
    (((2, 2), (2, 2), (0,) * 4, (1, 1)), (2, 8, 7, 16)),
    (((5, 5), (1, 1), (2,) * 4, (1, 1)), (1, 6, 11, 24)),
    (((3, 3), (1, 1), (2,) * 4, (2, 2)), (1, 7, 9, 3)),
    (((3, 2), (2, 3), (0, 0, 1, 0), (1, 1), True), (1, 10, 12, 17)),
    (((7, 7), (1, 1), (0,) * 4, (1, 1)), (1, 7, 7, 640)),
    (((20, 20), (1, 1), (0,) * 4, (1, 1)), (2, 20, 20, 5)),
    (((20, 20), (3, 3), (10,) * 4, (1, 1)), (1, 24, 24, 4)),
    (((17,), (1,), (8, 8), (1,)), (1, 30, 7)),
    (((2, 2, 2), (2, 1, 2), (0,) * 6, (1, 1, 1)), (1, 4, 3, 5, 9)),
]


def random(*shape: int, dtype: type = np.float32) -> Array:
    rng = np.random.default_rng(sum(shape))
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def bench_of(op: Pool, *arrays: Array, target: str = "host", gaps: bool = False) -> Bench:
    bench = Bench(Target.of(target))
    bench.steps_of(op, *(bench.input(x, gaps=gaps) for x in arrays), gaps=gaps)
    return bench


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases_of_the_op(case: Case) -> None:
    arrays = [x for x in case.inputs() if x is not None]
    bench = bench_of(case.op, *arrays, gaps=True)
    if not bench.job().is_empty:
        bench.check(pieces=3, rtol=2e-3 if arrays[0].dtype == np.float16 else 1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("geometry", "x"), GEOMETRIES, ids=str)
def test_geometries(kind: type[Pool], geometry: tuple, x: Shape, target: str) -> None:
    bench = bench_of(kind(*geometry), random(*x), target=target)
    bench.check()


@pytest.mark.parametrize("p", [2**24, 2**63 - 1])
def test_the_degree_of_a_norm_does_not_make_the_code_longer(p: int) -> None:
    x = np.array([0, 0.5, 1, 0, -2, 0, 0.25, np.inf], np.float32).reshape(1, 8, 1)
    (found,) = bench_of(LpPool((2,), (2,), (0, 0), (1,), p=p), x).run(1)
    np.testing.assert_array_equal(found.reshape(-1), [0, 1, np.inf, np.inf])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("geometry", "x"), [GEOMETRIES[0], GEOMETRIES[5]], ids=str)
def test_pieces_change_nothing(kind: type[Pool], geometry: tuple, x: Shape) -> None:
    bench = bench_of(kind(*geometry), random(*x))
    whole = [result.copy() for result in bench.run(1)]
    for one, other in zip(whole, bench.run(3), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
@pytest.mark.parametrize(
    "dtype",
    [np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int16, np.int32, np.uint64],
)
def test_types(dtype: type, target: str) -> None:
    tolerance = 2e-2 if np.dtype(dtype).itemsize == 2 else 1e-5
    kinds = KINDS if not np.issubdtype(dtype, np.integer) else KINDS[:2]
    geometry, shape = GEOMETRIES[0]
    for kind in kinds:
        bench = bench_of(kind(*geometry), random(*shape, dtype=dtype), target=target)
        bench.check(rtol=tolerance, atol=tolerance)


def test_a_mean_over_everything_is_shared_by_channels() -> None:
    bench = bench_of(AvgPool(*GEOMETRIES[5][0]), random(1, 7, 7, 1280))
    kernel = best_kernel(bench.job(), bench.target)
    assert kernel.functions[0].units >= 8


def test_a_mean_counts_its_padding_if_told() -> None:
    geometry, x = GEOMETRIES[0]
    bench_of(AvgPool(*geometry, False, True), random(*x)).check()


def test_nan_wins() -> None:
    x = random(1, 6, 6, 20)
    x[0, 2, 2], x[0, 4, 5, :3] = np.nan, np.nan
    for kind in (MaxPool, MaxPoolWithIndices):
        bench_of(kind(*GEOMETRIES[0][0]), x).check()


@pytest.mark.parametrize("kind", [MaxPool, AvgPool])
def test_steps_after_it(kind: type[Pool]) -> None:
    bench = Bench()
    y = bench.step(kind(*GEOMETRIES[0][0]), bench.input(random(1, 9, 12, 40), gaps=True))
    residual = bench.input(random(*y.type.shape), gaps=True)
    bench.step(Relu(), bench.step(Add(), y, residual), stored=True, gaps=True)
    bench.check(pieces=3)


@pytest.mark.parametrize("name", ["aarch64", "cortex-m4", "riscv64", "wasm32"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_machines(kind: type[Pool], name: str) -> None:
    bench, target = bench_of(kind(*GEOMETRIES[0][0]), random(*GEOMETRIES[0][1])), Target.of(name)
    assert compile_module(best_kernel(bench.job(), target).module, target)


@pytest.mark.parametrize(("geometry", "x"), GEOMETRIES[:4], ids=str)
def test_the_gradient_of_a_maximum_goes_to_the_first_largest(geometry: tuple, x: Shape) -> None:
    bench = Bench()
    values = bench.input(random(*x).round())  # many are equal
    pooled = MaxPool(*geometry).pooled(values.type)
    op = MaxPoolGradient(*geometry)
    spread = bench.step(op, bench.input(random(*pooled.shape)), values)
    bench.step(Add(), spread, values, stored=True)
    bench.check(pieces=3)
