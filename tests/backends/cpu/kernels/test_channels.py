"""Moments and sums of channels: any axis, few and many rows, in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu.kernels.reduction import BLOCK
from afterglow.ops.channels import ChannelMoments, ChannelSums
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.channels import CASES
from tests.backends.cpu.kernels import ranged
from tests.backends.cpu.kernels.harness import Bench
from tests.backends.cpu.kernels.line_checks import TARGETS, check_case, random

SHAPES = [
    ((2, 3, 5), -1),
    ((3, 4, 37), 1),
    ((BLOCK // 32 + 3, 70), -1),
    ((2, 3, BLOCK + 9), 1),
    ((3, 2, 90, 100), 1),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", [c for c in CASES if all(t.size for t in c.types)], ids=str)
def test_cases_of_the_ops(case: Case, target: str) -> None:
    check_case(case, target)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_channels_are_reduced_along_all_other_axes(shape: tuple[int, ...], axis: int) -> None:
    bench = Bench()
    x, grad, mean = (bench.input(random(*s)) for s in (shape, shape, shape[axis:][:1]))
    bench.steps_of(ChannelSums(axis), grad, x, mean)
    bench.check(pieces=3, atol=1e-5)
    bench = Bench()
    bench.steps_of(ChannelMoments(axis), bench.input(random(*shape), gaps=True))
    bench.check(pieces=2)


def test_the_variance_of_numbers_far_from_zero_is_exact() -> None:
    x = random(BLOCK // 16, 40) + np.float32(1000)
    bench = Bench()
    bench.steps_of(ChannelMoments(), bench.input(x))
    _, variance = bench.run()
    np.testing.assert_allclose(variance, x.astype(np.float64).var(0), rtol=1e-5)


def test_there_may_be_any_number_of_rows() -> None:
    ranged.check_op(ChannelMoments(), "n, 5", runs=ranged.RUNS[1:3], threads=2)
    ranged.check_op(ChannelSums(), "b, s, 70", "b, s, 70", "70", runs=ranged.RUNS[:2])
