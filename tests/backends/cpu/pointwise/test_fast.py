"""The functions of which networks compute many: many numbers, against `evaluate` in f64."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.graph import Op, run_op
from afterglow.ops import activation, functions
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, f64
from tests.backends.cpu.pointwise.harness import Job, run_jobs
from tests.backends.cpu.running import RUNNABLE

_RELATIVE: list[tuple[Op, float]] = [
    (functions.Tanh(), 2.6),
    (activation.Elu(), 1.1),
    (activation.Selu(), 2.6),
    (activation.Softplus(), 3.5),
]
"""Right to so many units in the last place."""
_ABSOLUTE: list[tuple[Op, float]] = [
    (activation.Sigmoid(), 1.5e-7),
    (activation.Swish(), 2.5e-7),
    (activation.Mish(), 2.5e-7),
    (activation.HardSwish(), 2e-7),
    (activation.Gelu(approximate=True), 2.5e-7),
    (activation.Gelu(), 1.2e-6),
]
"""Right to that, times the result where that is above 1."""


def numbers() -> Array:
    rng = np.random.default_rng(0)
    spans = [rng.uniform(-size, size, 40_000) for size in (0.5, 6, 80)]
    return np.concatenate(spans).astype(np.float32)


def errors(ops: list[Op], target: str) -> list[tuple[Array, Array]]:
    """By how much each op is off, and its exact results."""
    x = numbers()
    found = run_jobs([Job(op, f32, (x,)) for op in ops], Target.of(target))
    wide = TensorType(f64, (x.size,))
    exact = [run_op(op, [x.astype(np.float64)], [wide])[0] for op in ops]
    return [(np.abs(f - e), np.abs(e)) for f, e in zip(found, exact, strict=True)]


@pytest.mark.parametrize("target", sorted({RUNNABLE[0], "host"}))
def test_errors_are_few_units_in_the_last_place(target: str) -> None:
    for (op, limit), (error, size) in zip(
        _RELATIVE, errors([op for op, _ in _RELATIVE], target), strict=True
    ):
        worst = (error / np.spacing(np.float32(size))).max()
        assert worst <= limit, f"{op} is off by {worst} units"


@pytest.mark.parametrize("target", sorted({RUNNABLE[0], "host"}))
def test_errors_are_small_beside_one(target: str) -> None:
    for (op, limit), (error, size) in zip(
        _ABSOLUTE, errors([op for op, _ in _ABSOLUTE], target), strict=True
    ):
        worst = (error / np.maximum(1, size)).max()
        assert worst <= limit, f"{op} is off by {worst}"
