"""The gradient of a normalization of rows: lengths, blocks, and what follows it."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.ops.elementwise import Add
from afterglow.ops.norm_gradient import NormGradient
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
@pytest.mark.parametrize(("rows", "width"), [(3, 5), (70, 37), (2, 320)])
def test_lengths_of_rows(rows: int, width: int, target: str) -> None:
    bench = Bench(Target.of(target))
    given = random(rows, width), random(rows, width) + 1, random(width)
    bench.steps_of(NormGradient(), *map(bench.input, given))
    bench.check(pieces=3)


@pytest.mark.parametrize("centred", [True, False])
def test_rows_of_one_element(centred: bool) -> None:
    bench = Bench()
    given = random(3, 1), random(3, 1) + 1, random(1)
    bench.steps_of(NormGradient(centred=centred), *map(bench.input, given))
    bench.check(pieces=3)


def test_rows_with_gaps_and_an_epilogue() -> None:
    bench = Bench()
    grad, x = (bench.input(random(2, 3, 20 + n)[:, :, :20], gaps=True) for n in range(2))
    dx, *_ = bench.steps_of(NormGradient(centred=False), grad, x)
    bench.step(Add(), dx, bench.input(random(2, 3, 20)), stored=True)
    bench.check()
