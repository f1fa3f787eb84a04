"""Reductions: along, across and mixed axes, short and long, all element types."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.kernels.reduction import BLOCK, lines_side_by_side
from afterglow.backends.cpu.micro.layout import lay_out
from afterglow.graph import Op
from afterglow.instr import Buffer, Region
from afterglow.ops.elementwise import Mul
from afterglow.ops.reduction import ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.reduction import CASES
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.backends.cpu.kernels import ranged
from tests.backends.cpu.kernels.harness import Bench
from tests.backends.cpu.kernels.line_checks import (
    DTYPES,
    TARGETS,
    check_case,
    check_compiles,
    check_fused,
    check_op,
    random,
)

SHAPES = [
    ((5, 7), (1,)),
    ((5, 7), (0,)),
    ((3, 4, 130), (1,)),
    ((3, 4, 130), (0, 2)),
    ((200, 3), (1,)),
    ((2, 49, 300), (1,)),
    ((6, 50, 3), (1,)),
    ((2, 3, 4, 5, 6), (0, 2, 4)),
    ((1, 1), (0, 1)),
]
LONG = [
    ((2 * BLOCK + 5,), (0,)),
    ((3, BLOCK + 1), (1,)),
    ((BLOCK // 8, 50), (0,)),
    ((2, BLOCK // 8, 200), (1,)),
    ((100, BLOCK // 50), (0, 1)),
    ((2, 300, 4, 100), (1, 3)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases_of_the_ops(case: Case, target: str) -> None:
    check_case(case, target)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_axes_anywhere(shape: tuple[int, ...], axes: tuple[int, ...], gaps: bool) -> None:
    for op in (ReduceSum(axes), ReduceMax(axes, keepdims=False)):
        check_op(op, random(*shape), gaps=gaps)


@pytest.mark.parametrize(("shape", "axes"), LONG)
def test_long_lines_are_cut_into_blocks(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    for op in (ReduceMean(axes), ReduceMin(axes, keepdims=False)):
        check_op(op, random(*shape) + 1, gaps=len(shape) > 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [ReduceSum, ReduceProd, ReduceMax, ReduceMin])
def test_element_types(op: type[Op], dtype: str) -> None:
    wanted = random(3, 75, 2, dtype=dtype)
    array = wanted if op is not ReduceProd else (wanted * 0 + 1).astype(wanted.dtype)
    for axis in (0, 1, 2):
        check_op(op((axis,)), array)  # type: ignore[call-arg]


def test_nan_is_extreme_wherever_it_is() -> None:
    array = np.tile(random(70), (70, 1))
    np.fill_diagonal(array, np.nan)
    for op in (ReduceMax((1,)), ReduceMin((1,)), ReduceMax((0,)), ReduceMin((0,))):
        check_op(op, array)


def test_sums_of_many_numbers_are_exact_enough() -> None:
    many = np.full((300_000,), 0.1, np.float32)
    rows = np.full((70_000, 3), 0.1, np.float32)
    for array, axis in ((many, 0), (rows, 0)):
        bench = Bench()
        bench.step(ReduceSum((axis,)), bench.input(array), stored=True)
        (result,) = bench.run()
        want = array.sum(axis, np.float64, keepdims=True)
        # Lanes share the sum: with half of them each adds up twice as many numbers.
        np.testing.assert_allclose(result, want, rtol=2.048e-3 / Target.host().vector_bits)


@pytest.mark.parametrize(("shape", "axes"), [*SHAPES[:8], *LONG[2:4]])
def test_steps_around(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    check_fused(ReduceMean(axes), random(*shape))


def test_products_are_summed_without_being_stored() -> None:
    bench = Bench()
    a, b = bench.input(random(4, 50, 33)), bench.input(random(50, 1))
    bench.step(ReduceSum((1, 2), keepdims=False), bench.step(Mul(), a, b), stored=True)
    bench.check(2, atol=1e-5)


@pytest.mark.parametrize(("shape", "axes"), [SHAPES[1], SHAPES[3], LONG[0]])
def test_other_machines(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    check_compiles(ReduceMax(axes), random(*shape))


@pytest.mark.parametrize("op", [ReduceSum, ReduceMean, ReduceMax, ReduceMin])
@pytest.mark.parametrize("shape", ["b, s, 7", "3, s", "s, 5, b", "2, 40, s"])
def test_one_program_for_ranged_lines(shape: str, op: type[Op]) -> None:
    for axis in range(shape.count(",") + 1):
        ranged.check_op(op((axis,)), shape, fused=axis == 0)  # type: ignore[call-arg]


def test_ranged_lines_are_cut_into_blocks() -> None:
    ranged.check_op(ReduceMean((0, 1)), "b, n", threads=2)
    ranged.check_op(ReduceMean((0,)), "n, s", runs=ranged.RUNS[:3], threads=2)


def test_whole_rows_are_read_where_blocks_of_them_are_shared() -> None:
    x = Buffer("x", TensorType(f32, (4096, 64)), Region.INPUT)
    y = Buffer("y", TensorType(f32, (64,)), Region.OUTPUT)
    target = Target.of("x86-64-v4")
    for rows, side in ((4096, 4), (64, 2)):
        layout = lay_out((rows, 64), (0,), {x: (64, 1)}, {y: (0, 1)}, 16)
        assert lines_side_by_side(target, layout, f32).side == side
