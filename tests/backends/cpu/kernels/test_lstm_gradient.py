"""The gradient of an LSTM layer through time, and the layer that keeps what it needs."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.ops.lstm_gradient import LSTMGradient
from afterglow.ops.recurrent import LSTMKeepingGates
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench, best_kernel
from tests.backends.cpu.kernels.test_recurrent import random

SHAPES = [
    # steps, batch, width
    (1, 1, 1),
    (3, 3, 16),
    (2, 13, 70),
]


def gradient_bench(
    shape: tuple[int, ...],
    dtype: str = "f4",
    *,
    reverse: bool = False,
    gaps: bool = False,
    target: str = "host",
) -> Bench:
    steps, batch, width = shape
    shapes = [(steps, batch, width), (steps, batch, 4 * width), (steps, batch, width)]
    shapes = [*shapes, (4 * width, width), (batch, width), (batch, width)]
    return bench_of(LSTMGradient(reverse), [random(*s, dtype=dtype) for s in shapes], gaps, target)


def bench_of(
    op: LSTMGradient | LSTMKeepingGates, arrays: list[Array], gaps: bool, target: str = "host"
) -> Bench:
    bench = Bench(Target.of(target))
    operands = [bench.input(array, gaps=gaps) for array in arrays]
    bench.steps_of(op, *operands, gaps=gaps)
    return bench


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: tuple[int, ...]) -> None:
    gradient_bench(shape, reverse=shape[0] > 2).check()


def test_rows_may_lie_apart_and_threads_change_nothing() -> None:
    bench = gradient_bench(SHAPES[2], gaps=True, reverse=True)
    bench.check(pieces=3)
    alone, shared = (gradient_bench(SHAPES[2]).run(pieces) for pieces in (1, 3))
    for a, b in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(a, b)


def test_doubles() -> None:
    gradient_bench(SHAPES[1], "f8").check(rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("target", ["x86-64", "cortex-m4"])
def test_other_machines(target: str) -> None:
    machine = Target.of(target)
    kernel = best_kernel(gradient_bench(SHAPES[2], target=target).job(), machine)
    assert compile_module(kernel.module, machine)


@pytest.mark.parametrize("width", [17, 260])
def test_a_layer_that_keeps_its_gates(width: int) -> None:
    arrays = [random(3, 5, 4), random(4 * width, 4), random(4 * width, width) / 8]
    bench_of(LSTMKeepingGates(reverse=width > 20), arrays, gaps=True).check(pieces=2, atol=1e-5)
