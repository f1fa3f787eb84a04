"""Normalizations over trailing axes, over groups of channels, and over neighbouring channels."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.ops.normalization import LRN, GroupNorm, LayerNorm, RMSNorm
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.normalization import CASES
from tests.backends.cpu.kernels import ranged
from tests.backends.cpu.kernels.harness import Bench
from tests.backends.cpu.kernels.line_checks import (
    TARGETS,
    check_case,
    check_compiles,
    check_fused,
    check_op,
    random,
)

SHAPES = [(5, 7), (3, 4, 130), (2, 200, 3), (33, 2, 17), (1, 1000), (4, 64)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases_of_the_ops(case: Case, target: str) -> None:
    check_case(case, target)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_trailing_axes(shape: tuple[int, ...], gaps: bool) -> None:
    for axis in range(len(shape)):
        scale, bias = random(*shape[axis:], seed=1), random(shape[-1], seed=2)
        check_op(LayerNorm(axis), random(*shape), scale, bias, gaps=gaps)
        check_op(RMSNorm(axis, 1e-3), random(*shape), scale, gaps=gaps)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "groups"),
    [
        ((2, 6, 5, 12), 3, 3),
        ((2, 6, 5, 12), 3, 12),
        ((2, 6, 5, 12), 1, 2),
        ((1, 300, 64), 2, 2),
        ((1, 300, 64), 2, 64),
        ((3, 8), 1, 4),
        ((1, 40, 30, 20), 3, 1),
        ((1, 300, 20), 2, 2),
        ((2, 7, 3, 320), 3, 32),
        ((1, 500, 150), 2, 5),
    ],
)
def test_groups_of_channels(shape: tuple[int, ...], axis: int, groups: int, gaps: bool) -> None:
    scale, bias = random(shape[axis], seed=1), random(shape[axis], seed=2)
    check_op(GroupNorm(groups, axis=axis), random(*shape) + 5, scale, bias, gaps=gaps)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_few_long_lines_are_cut_into_blocks(dtype: str) -> None:
    x, vector = random(1, 1500, 37, dtype=dtype), random(37, dtype=dtype, seed=1)
    check_op(LayerNorm(1), x, random(1500, 37, dtype=dtype, seed=1), vector)
    check_op(RMSNorm(), random(1, 40_003, dtype=dtype))
    check_op(GroupNorm(37), x, vector, vector, gaps=True)
    check_op(GroupNorm(1), x, vector, vector, gaps=True)
    x, vector = random(2, 1501, 42, dtype=dtype), random(42, dtype=dtype, seed=1)
    check_op(GroupNorm(14), x, vector, vector, gaps=True)


def test_steps_around_blocks() -> None:
    check_fused(LayerNorm(1), random(1, 1500, 37), random(1500, 37), random(37))
    check_fused(GroupNorm(7), random(1, 1500, 42), random(42), random(42), prologue=False)


@pytest.mark.parametrize("dtype", ["f64", "f16"])
def test_element_types(dtype: str) -> None:
    x, vector = random(3, 19, 37, dtype=dtype), random(37, dtype=dtype, seed=1)
    check_op(LayerNorm(), x, vector, vector)
    check_op(RMSNorm(), x, vector)
    check_op(GroupNorm(1), x, vector, vector)
    check_op(GroupNorm(6), x[..., :36].copy(), vector[:36].copy(), vector[:36].copy())
    check_op(LRN(5), x)


def test_large_means_do_not_spoil_the_variance() -> None:
    check_op(LayerNorm(), (random(4, 5000) + 1000).round())
    vector = random(20, seed=1)
    check_op(GroupNorm(5), (random(2, 700, 20) + 1000).round(), vector, vector)


def test_the_result_may_lie_where_the_operand_lay() -> None:
    bench = Bench()
    x = bench.input(random(7, 70))
    (out,) = bench.steps_of(LayerNorm(), x)
    bench.memory[out] = bench.memory[x]
    bench.check(3)


@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0, 0.6])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_neighbouring_channels(axis: int, beta: float) -> None:
    for size in (1, 4, 5):
        check_op(LRN(size, 0.3, beta, 2.0, axis), random(3, 20, 37), gaps=True)


@pytest.mark.parametrize("shape", SHAPES[:4])
def test_steps_around(shape: tuple[int, ...]) -> None:
    vector = random(shape[-1], seed=1)
    check_fused(LayerNorm(1), random(*shape), vector, vector)
    check_fused(RMSNorm(), random(*shape), vector)
    check_fused(GroupNorm(1), random(*shape), vector, vector, prologue=False)
    check_fused(LRN(3), random(*shape), prologue=False)


def test_other_machines() -> None:
    vector = random(37, seed=1)
    check_compiles(LayerNorm(), random(3, 37), vector, vector)
    check_compiles(GroupNorm(37), random(2, 9, 37), vector, np.abs(vector))
    check_compiles(GroupNorm(6), random(2, 9, 36), vector[:36].copy(), np.abs(vector)[:36].copy())
    check_compiles(LRN(5, beta=0.6), random(3, 37))


@pytest.mark.parametrize(("shape", "last"), [("b, s, 7", "7"), ("3, s", "s"), ("b, 5, s", "s")])
def test_one_program_for_ranged_lines(shape: str, last: str) -> None:
    for fused in (False, True):
        ranged.check_op(LayerNorm(-1), shape, last, last, fused=fused)
        ranged.check_op(RMSNorm(-1), shape, last, fused=fused)


def test_one_program_for_ranged_groups() -> None:
    ranged.check_op(GroupNorm(4, axis=1), "b, 8, s", "8", "8")
    ranged.check_op(GroupNorm(8, axis=1), "b, 8, s, 3", "8", "8")
    ranged.check_op(GroupNorm(4, axis=-1), "b, s, 16", "16", "16")
    ranged.check_op(GroupNorm(4, axis=-1), "b, n, 16", "16", "16", runs=ranged.RUNS[:3])
    ranged.check_op(LRN(3, axis=1), "b, 8, s")
    ranged.check_op(LRN(3, axis=-1), "b, s")
