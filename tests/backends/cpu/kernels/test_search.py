"""Places of extremes, the k best, running sums: ties, NaN, any axis, all element types."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Op
from afterglow.ops.elementwise import Add
from afterglow.ops.reduction import CumProd, CumSum
from afterglow.ops.search import ArgMax, ArgMin, TopK
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.search import CASES
from afterglow.types import Array
from afterglow.types.extent import UndecidedExtentError
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

BOTH = (False, True)
SHAPES = [
    ((3, 50), 1),
    ((200, 3), 0),
    ((4, 30, 3), 1),
    ((2, 33), 1),
    ((1, 1), 0),
    ((3, 40), 0),
    ((300, 20), 0),
]


def with_edges(array: Array) -> Array:
    """Some elements made NaN or infinite, others equal."""
    if array.dtype.kind == "f":
        flat = array.reshape(-1)
        flat[3::17], flat[5::19], flat[7::23] = np.nan, np.inf, -np.inf
        flat[2::5] = np.round(flat[2::5])
    return array


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases_of_the_ops(case: Case, target: str) -> None:
    check_case(case, target)


@pytest.mark.parametrize("op", [ArgMax, ArgMin])
@pytest.mark.parametrize("dtype", DTYPES)
def test_places_of_extremes(op: type[Op], dtype: str) -> None:
    for number, (shape, axis) in enumerate(SHAPES):
        array = with_edges(random(*shape, dtype=dtype))
        check_op(op(axis, number % 2 == 0, number % 3 == 0), array)  # type: ignore[call-arg]


@pytest.mark.parametrize("last", BOTH)
@pytest.mark.parametrize("op", [ArgMax, ArgMin])
def test_equal_elements(op: type[Op], last: bool) -> None:
    for value in (0.0, -np.inf, np.inf, np.nan):
        for axis in (0, 1):
            array = np.full((37, 37), value, np.float32)
            check_op(op(axis, last_index=last), array, gaps=True)  # type: ignore[call-arg]


@pytest.mark.parametrize("ranked", BOTH)
@pytest.mark.parametrize("largest", BOTH)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_the_k_best(shape: tuple[int, ...], axis: int, largest: bool, ranked: bool) -> None:
    length = shape[axis]
    for k in {1, min(5, length), length}:
        check_op(TopK(k, axis, largest, ranked), with_edges(random(*shape)), gaps=ranked)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_k_best_of_any_type(dtype: str) -> None:
    check_op(TopK(7), with_edges(random(3, 200, dtype=dtype)))
    check_op(TopK(60, largest=False, sorted=False), with_edges(random(2, 300, dtype=dtype)))


@pytest.mark.parametrize("k", [7, 20, 150, 299, 300])
def test_the_k_best_of_a_line_in_any_order(k: int) -> None:
    line = np.arange(300, dtype=np.float32)
    organ = np.concatenate([line[::2], line[1::2][::-1]])
    array = np.stack([line, line[::-1], line % 7, organ, with_edges(random(300))])
    for largest in BOTH:
        check_op(TopK(k, 1, largest, sorted=False), array)


@pytest.mark.parametrize("k", [1, 16, 17, 300])
def test_the_k_best_of_rising_and_falling_lines(k: int) -> None:
    rising = np.arange(1000, dtype=np.float32) // 3
    check_op(TopK(k), np.stack([rising, rising[::-1], rising % 7]))


@pytest.mark.parametrize("reverse", BOTH)
@pytest.mark.parametrize("exclusive", BOTH)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_running_sums(shape: tuple[int, ...], axis: int, exclusive: bool, reverse: bool) -> None:
    check_op(CumSum(axis, exclusive, reverse), random(*shape), gaps=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_running_results_of_any_type(dtype: str) -> None:
    for axis in (0, 1):
        check_op(CumSum(axis), random(5, 70, dtype=dtype))
        check_op(CumProd(axis, reverse=True), random(5, 6, dtype=dtype))


def test_steps_after() -> None:
    check_fused(CumSum(0), random(5, 37), prologue=False)
    check_fused(CumSum(1), random(5, 37), prologue=False)


def test_steps_after_the_k_best() -> None:
    bench = Bench()
    values, _ = bench.steps_of(TopK(5), bench.input(random(4, 37)))
    bench.step(Add(), values, bench.input(random(5, seed=1)), stored=True)
    bench.check(2)


def test_other_machines() -> None:
    check_compiles(TopK(5), random(3, 100))
    check_compiles(ArgMax(1), random(3, 37))
    check_compiles(CumSum(0), random(3, 37))


@pytest.mark.parametrize("op", [ArgMax, ArgMin, CumSum, CumProd])
@pytest.mark.parametrize("shape", ["b, s, 7", "3, s", "s, 5, b"])
def test_one_program_for_ranged_lines(shape: str, op: type[Op]) -> None:
    for axis in range(shape.count(",") + 1):
        ranged.check_op(op(axis), shape)  # type: ignore[call-arg]


@pytest.mark.parametrize("k", [3, 20, 50])
@pytest.mark.parametrize("is_sorted", BOTH)
def test_best_of_ranged_lines(k: int, is_sorted: bool) -> None:
    ranged.check_op(TopK(k, 0, sorted=is_sorted or k == 20), "k, b")
    ranged.check_op(TopK(k, -1, largest=False, sorted=is_sorted), "s, 60")


def test_an_order_that_depends_on_the_length_is_refused() -> None:
    with pytest.raises(UndecidedExtentError) as refused:
        ranged.check_op(TopK(20, sorted=False), "k")
    text = "in which order the 20 best of k come depends on k (50..100)"
    assert text in str(refused.value)
