"""Resampling: all modes and types, channels last or first."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.codegen.write import can_write
from afterglow.graph import Builder, Function, Module
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.image import Coordinates, Interpolation, Resize, Rounding
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.image import CASES
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, ranged
from tests.backends.cpu.kernels.harness import Bench, best_kernel

Shape = tuple[int, ...]
NEAREST, LINEAR, CUBIC = Interpolation
RESIZES = [
    (Resize((1, 10, 14, 24), (1.0, 2.0, 2.0, 1.0)), (1, 5, 7, 24)),
    (Resize((1, 10, 14, 17), (1.0, 2.0, 2.0, 1.0), LINEAR), (1, 5, 7, 17)),
    (Resize((1, 9, 3, 40), (1.0, 1.8, 0.5, 1.0), LINEAR), (1, 5, 7, 40)),
    (Resize((1, 10, 14, 8), (1.0, 2.0, 2.0, 1.0), CUBIC), (1, 5, 7, 8)),
    (Resize((1, 3, 10, 21), (1.0, 1.0, 2.0, 3.0), LINEAR), (1, 3, 5, 7)),
    (Resize((1, 3, 5, 5), (1.0, 1.0, 0.25, 0.25), LINEAR, antialias=True), (1, 3, 20, 20)),
    (Resize((1, 6, 4, 6, 5), (1.0, 2.0, 2.0, 2.0, 1.0), LINEAR), (1, 3, 2, 3, 5)),
    (Resize((1, 1, 1, 1), (1.0, 0.2, 0.2, 1.0), LINEAR), (1, 5, 5, 1)),
]


def random(*shape: int, dtype: type = np.float32) -> Array:
    rng = np.random.default_rng(sum(shape))
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 120, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def bench_of(op: Resize, x: Array, target: str = "host", *, gaps: bool = False) -> Bench:
    bench = Bench(Target.of(target))
    bench.step(op, bench.input(x, gaps=gaps), stored=True, gaps=gaps)
    return bench


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases_of_the_op(case: Case) -> None:
    (x,) = case.inputs()
    assert x is not None
    bench = bench_of(case.op, x, gaps=True)
    if bench.job().is_empty or not x.ndim or case.op.coordinates is Coordinates.CROP:
        return
    bench.check(pieces=3)


CROPS = [case for case in CASES if case.op.coordinates is Coordinates.CROP]


@pytest.mark.parametrize("case", CROPS, ids=str)
def test_what_lies_outside_is_refused(case: Case) -> None:
    assert not can_write(bench_of(case.op, *case.inputs()).job())


@pytest.mark.parametrize("target", ["host", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize(("op", "x"), RESIZES, ids=str)
def test_resizes(op: Resize, x: Shape, target: str) -> None:
    bench_of(op, random(*x), target).check(atol=3e-6)


@pytest.mark.parametrize(("op", "x"), RESIZES, ids=str)
def test_pieces_change_nothing(op: Resize, x: Shape) -> None:
    bench = bench_of(op, random(*x))
    (whole,) = (result.copy() for result in bench.run(1))
    (pieces,) = bench.run(3)
    np.testing.assert_array_equal(whole, pieces)


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int32, np.bool_]
)
def test_types(dtype: type) -> None:
    tolerance = 3e-2 if dtype in (np.float16, ml_dtypes.bfloat16) else 1e-5
    for op, shape in RESIZES[: 1 if dtype is np.bool_ else 5]:
        bench_of(op, random(*shape, dtype=dtype)).check(rtol=tolerance, atol=tolerance)


def test_steps_after_it() -> None:
    bench = Bench()
    op, shape = RESIZES[1]
    y = bench.step(op, bench.input(random(*shape), gaps=True))
    residual = bench.input(random(*y.type.shape), gaps=True)
    bench.step(Relu(), bench.step(Add(), y, residual), stored=True, gaps=True)
    bench.check(pieces=3, rtol=1e-4)


@pytest.mark.parametrize("name", ["aarch64", "cortex-m4", "riscv64", "wasm32"])
def test_other_machines(name: str) -> None:
    for op, shape in RESIZES:
        bench, target = bench_of(op, random(*shape)), Target.of(name)
        assert compile_module(best_kernel(bench.job(), target).module, target)


N, H, W = ranged(Dim("n", 1, 3)), ranged(Dim("h", 1, 9)), ranged(Dim("w", 2, 21))
TWICE, ODD = (N, 2 * H, 2 * W, 18), (N, 3 * H // 2, W // 2, 18)
BOTH, SOME = (1.0, 2.0, 2.0, 1.0), (1.0, 1.5, 0.5, 1.0)
PICTURES = [{"n": n, "h": h, "w": w} for n, h, w in ((1, 1, 2), (2, 5, 7), (3, 4, 10), (1, 9, 21))]


@pytest.mark.parametrize(
    "op",
    [
        Resize(TWICE, BOTH, NEAREST, Coordinates.ASYMMETRIC, Rounding.FLOOR),
        Resize(TWICE, BOTH, LINEAR, Coordinates.HALF_PIXEL_OR_START),
        Resize(TWICE, BOTH, LINEAR, Coordinates.ALIGN_CORNERS),
        Resize(TWICE, BOTH, CUBIC, exclude_outside=True),
        Resize(ODD, SOME, LINEAR, Coordinates.HALF_PIXEL_SYMMETRIC),
        Resize(ODD, SOME, NEAREST, Coordinates.HALF_PIXEL_UNSHIFTED, Rounding.CEIL),
        Resize(ODD, SOME, LINEAR, antialias=True),
        Resize((N, 7, 9, 18), (1.0, 0.0, 0.0, 1.0), LINEAR),
        Resize((N, H, 3 * W, 54), (1.0, 1.0, 3.0, 3.0), LINEAR),
    ],
)
def test_images_of_ranged_extents_are_resampled(op: Resize) -> None:
    module = Module()
    function = Function("main", module)
    x = function.input("x", TensorType(f32, (N, H, W, 18)))
    b = Builder(function)
    function.output("y", b.emit(Relu(), b.emit(op, x)))
    check_ranged(module, PICTURES)
