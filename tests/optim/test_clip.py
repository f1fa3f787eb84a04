"""Clipping of gradients, by value and by their common norm."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.graph import Builder, Function, run_function
from afterglow.optim import clip_by_global_norm, clip_by_value
from afterglow.support.errors import UsageError
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32

SHAPES = ((2, 3), (4,))
GRADIENTS = [
    np.array([[3.0, -4.0, 0.5], [0.0, 1.0, -2.0]], np.float32),
    np.array([1.0, 2.0, -1.0, 5.0], np.float32),
]
NORM = np.sqrt(sum(float(np.square(g).sum()) for g in GRADIENTS))


def clipped(by: str, limit: float | None) -> list[Array]:
    """All results of clipping; no limit: it is an input of 2."""
    f = Function("main")
    b = Builder(f)
    gradients = [f.input(f"g{i}", TensorType(f32, shape)) for i, shape in enumerate(SHAPES)]
    given = f.input("limit", TensorType(f32, ()))
    used = given if limit is None else limit
    if by == "value":
        results = clip_by_value(b, gradients, used)
    else:
        smaller, norm = clip_by_global_norm(b, gradients, used)
        results = (*smaller, norm)
    for index, value in enumerate(results):
        f.output(f"y{index}", value)
    return [*run_function(f, [*GRADIENTS, np.array(2, np.float32)])]


@pytest.mark.parametrize("limit", [2.0, None])
def test_elements_beyond_the_limit_become_the_limit(limit: float | None) -> None:
    for got, gradient in zip(clipped("value", limit), GRADIENTS, strict=True):
        np.testing.assert_array_equal(got, np.clip(gradient, -2, 2))


@pytest.mark.parametrize("limit", [2.0, None])
def test_gradients_are_scaled_to_the_limit_of_their_norm(limit: float | None) -> None:
    *smaller, norm = clipped("norm", limit)
    np.testing.assert_allclose(norm, NORM, rtol=1e-6)
    for got, gradient in zip(smaller, GRADIENTS, strict=True):
        np.testing.assert_allclose(got, gradient * 2 / NORM, rtol=1e-5)


def test_gradients_within_the_limit_stay_as_they_are() -> None:
    *smaller, _ = clipped("norm", 100.0)
    for got, gradient in zip(smaller, GRADIENTS, strict=True):
        np.testing.assert_array_equal(got, gradient)


def test_the_factor_fuses_into_the_update() -> None:
    f = Function("main")
    b = Builder(f)
    gradient, lr = f.input("g", TensorType(f32, (6, 5))), f.input("lr", TensorType(f32, ()))
    weight = f.module.state("w", TensorType(f32, (6, 5)))
    (smaller,), _ = clip_by_global_norm(b, [gradient], 1.0)
    moved, _ = ag.optim.SGD().update(b, weight, smaller, lr, lr, ())
    f.update(weight, moved)
    text = ag.compile(f.module).ir("instructions")
    assert not [line for line in text.splitlines() if "= alloc f32[6, 5]" in line]


@pytest.mark.parametrize("limit", [-1.0, 0.0])
def test_a_limit_that_is_not_above_0_is_refused(limit: float) -> None:
    with pytest.raises(UsageError) as caught:
        clipped("value", limit)
    assert caught.value.what == f"clipping: the limit must be a number above 0, got {limit}"


def test_no_gradients_have_no_norm() -> None:
    with pytest.raises(UsageError) as caught:
        clip_by_global_norm(Builder(Function("main")), [], 1.0)
    assert caught.value.what == "clip_by_global_norm needs at least one gradient"
