"""Softmax, its logarithm and hardmax: any axis, lines without a finite largest element."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Op
from afterglow.ops.softmax import Hardmax, LogSoftmax, Softmax
from afterglow.testing.cases.activation import CASES
from afterglow.testing.cases.case import Case
from tests.backends.cpu.kernels import ranged
from tests.backends.cpu.kernels.line_checks import (
    TARGETS,
    check_case,
    check_compiles,
    check_fused,
    check_op,
    random,
)

OPS = (Softmax, LogSoftmax, Hardmax)
SHAPES = [(5, 7), (3, 4, 130), (2, 200, 3), (33, 2, 17), (1, 1000), (2, 1), (4, 64), (3, 5, 6, 7)]
INF, NAN = np.inf, np.nan
EDGES = [
    [NAN, 1, 2],
    [-INF, -INF, -INF],
    [INF, 1, 2],
    [-INF, 1, 2],
    [INF, INF, 0],
    [1000, -1000, 0],
    [0, -88, -104],
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", [c for c in CASES if isinstance(c.op, OPS)], ids=str)
def test_cases_of_the_ops(case: Case, target: str) -> None:
    check_case(case, target)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_axis(shape: tuple[int, ...], op: type[Op]) -> None:
    for axis in range(len(shape)):
        check_op(op(axis), random(*shape), gaps=axis % 2 == 0)  # type: ignore[call-arg]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["f64", "f16"])
def test_element_types(op: type[Op], dtype: str) -> None:
    for axis in (0, 1):
        check_op(op(axis), random(19, 37, dtype=dtype))  # type: ignore[call-arg]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", OPS)
def test_infinite_and_no_numbers(op: type[Op], target: str) -> None:
    edges = np.array(EDGES, np.float32)
    for array in (edges, np.tile(edges, (3, 20))):
        check_op(op(1), array, target=target)  # type: ignore[call-arg]
        check_op(op(0), np.ascontiguousarray(array.T), target=target)  # type: ignore[call-arg]


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("op", [Softmax, LogSoftmax])
def test_few_long_lines_are_cut_into_blocks(op: type[Op], dtype: str) -> None:
    along = random(2, 40_003, dtype=dtype)
    check_op(op(1), along, gaps=True)  # type: ignore[call-arg]
    check_op(op(0), random(20_001, 3, dtype=dtype))  # type: ignore[call-arg]
    check_op(op(1), random(1, 1500, 37, dtype=dtype), gaps=True)  # type: ignore[call-arg]


def test_lines_too_long_to_be_kept() -> None:
    check_op(Softmax(1), random(8, 70_001))
    check_op(Softmax(1), random(1, 1_100_003))


def test_steps_around_blocks() -> None:
    check_fused(Softmax(1), random(1, 1500, 37))
    check_fused(LogSoftmax(1), random(1, 40_003))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", SHAPES[:4])
def test_steps_around(shape: tuple[int, ...], op: type[Op]) -> None:
    for axis in (0, -1):
        check_fused(op(axis), random(*shape))  # type: ignore[call-arg]


def test_other_machines() -> None:
    check_compiles(Softmax(), random(3, 37))
    check_compiles(LogSoftmax(0), random(3, 37))
    check_compiles(Hardmax(), random(3, 37))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", ["b, s, 7", "3, s", "s, 5, b"])
def test_one_program_for_ranged_lines(shape: str, op: type[Op]) -> None:
    for axis in range(shape.count(",") + 1):
        ranged.check_op(op(axis), shape, fused=axis == 0)  # type: ignore[call-arg]


def test_ranged_lines_are_cut_into_blocks() -> None:
    ranged.check_op(Softmax(), "2, n", threads=2)
    ranged.check_op(LogSoftmax(0), "n, 3", threads=2)
