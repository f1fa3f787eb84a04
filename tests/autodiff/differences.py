"""The oracle for gradients: central differences, in double precision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.autodiff import gradients
from afterglow.graph import Builder, Function, Module, Value, run_function, verify_function
from afterglow.ops.fill import Fill
from afterglow.types import Array

STEP = 1e-6
FEW = 48
"""Of operands up to this size every element is tried, of larger ones so many directions."""


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
    f: Function, inputs: Sequence[Array], tolerance: float = 1e-5, order: int = 1
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
        sides = []
        for sign in (1, -1):
            moved = [*inputs]
            moved[index] = inputs[index] + sign * STEP * direction
            results = run_function(f, moved)
            sides.append([(y * w).ravel() for y, w in zip(results, weights, strict=True)])
        change = sum(float((a - b).sum()) for a, b in zip(*sides, strict=True))
        size = 1 + max((float(np.abs(y).max(initial=0)) for y in sides[0]), default=0.0)
        want, have = change / (2 * STEP), float((grad * direction).sum())
        assert np.isclose(have, want, rtol=tolerance, atol=tolerance * size * 10), (
            f"input {index}: gradient {have}, difference {want}, along\n{direction}"
        )


def _directions(x: Array) -> list[Array]:
    if x.size <= FEW:
        return [row.reshape(x.shape) for row in np.eye(x.size)]
    rng = np.random.default_rng(3)
    return [rng.uniform(-1, 1, x.shape) for _ in range(FEW // 4)]
