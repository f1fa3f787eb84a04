"""The oracle for gradients: central differences of the fourth order, in double precision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.autodiff import gradients
from afterglow.graph import Builder, Function, Module, Value, run_function, verify_function
from afterglow.ops.fill import Fill
from afterglow.types import Array

STEP = 1e-5
WEIGHTS = {1: 2 / 3, -1: -2 / 3, 2: -1 / 12, -2: 1 / 12}
"""What function values so many steps away count for."""
FEW = 12
"""Of operands up to this size every element is tried, of larger ones so many directions."""
RELATIVE = 1e-6
NOISE = 1e-10
"""What rounding leaves of function values, over the step."""


def with_gradients(f: Function) -> list[Array]:
    """Let a function return its gradients instead: those of a weighted sum of its float outputs.

    Returns the weights. The gradients are with respect to its float inputs, zeros where there are
    none.
    """
    rng = np.random.default_rng(7)
    ys = [output.value for output in f.outputs if output.value.type.dtype.is_float]
    weights = [rng.uniform(0.5, 1.5, y.type.shape).astype(y.type.dtype.numpy) for y in ys]
    f.outputs.clear()
    b = Builder(f)
    seeds = [b.constant(weight) for weight in weights]
    xs = [x for x in f.inputs if x.type.dtype.is_float]
    for index, (x, grad) in enumerate(zip(xs, gradients(b, ys, xs, seeds), strict=True)):
        f.output(f"d{index}", zeros(b, x) if grad is None else grad)
        assert f.outputs[-1].value.type == x.type
    verify_function(f)
    return weights


def zeros(b: Builder, x: Value) -> Value:
    return b.emit(Fill(x.type.shape, 0.0, x.type.dtype))


def assert_gradients(
    f: Function, inputs: Sequence[Array], tolerance: float = RELATIVE, order: int = 1
) -> None:
    """The gradients of a function of doubles are what differences say; of orders up to `order`."""
    for _ in range(order):
        plain = f.clone(f.name, Module())
        kept = [output for output in plain.outputs if output.value.type.dtype.is_float]
        plain.outputs[:] = kept
        weights = with_gradients(f)
        got = run_function(f, inputs)
        where = [i for i, x in enumerate(f.inputs) if x.type.dtype.is_float]
        for index, grad in zip(where, got, strict=True):
            _assert_close(plain, inputs, index, grad, weights, tolerance)


def _assert_close(
    f: Function,
    inputs: Sequence[Array],
    index: int,
    grad: Array,
    weights: Sequence[Array],
    tolerance: float,
) -> None:
    for direction in _directions(inputs[index]):
        want, size = 0.0, 1.0
        for steps, weight in WEIGHTS.items():
            moved = [*inputs]
            moved[index] = inputs[index] + steps * STEP * direction
            results = run_function(f, moved)
            terms = [(y * w).ravel() for y, w in zip(results, weights, strict=True)]
            want += weight * sum(float(term.sum()) for term in terms) / STEP
            size = max(size, *(float(np.abs(term).sum()) for term in terms))
        have, parts = float((grad * direction).sum()), float(np.abs(grad * direction).sum())
        assert abs(have - want) <= tolerance * max(parts, abs(want)) + NOISE * size, (
            f"input {index}: gradient {have}, difference {want}, along\n{direction}"
        )


def _directions(x: Array) -> list[Array]:
    if x.size <= FEW:
        return [row.reshape(x.shape) for row in np.eye(x.size)]
    rng = np.random.default_rng(3)
    return [rng.uniform(-1, 1, x.shape) for _ in range(FEW)]
