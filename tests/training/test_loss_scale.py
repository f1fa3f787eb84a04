"""Loss scaling: what overflows changes no weight."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.training.step import Recipe, training_step
from tests.training.test_step import SquaredError, feed, line


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_step_that_overflows_changes_nothing_and_halves_the_factor(backend: str) -> None:
    weight = np.ones((2, 3), np.float32)
    recipe = Recipe(SquaredError(), ag.optim.SGD(momentum=0.9), scale_loss=True)
    step = training_step(line(weight), recipe)
    model = ag.compile(step.module, backend=backend)
    model.reset(step.initial({"weight": weight}))

    def states() -> dict[str, np.ndarray]:
        return {name: state.read().result() for name, state in model.compiled.states.items()}

    given = feed()
    huge = {**given, "x": given["x"] * np.float32(1e19)}
    model(**huge, lr=np.float32(0.1))
    after = states()
    assert (after["weight"] == 1).all()
    assert after["step"] == 0
    assert after["loss_scale"] == 2.0**14
    model(**given, lr=np.float32(0.1))
    after = states()
    assert after["step"] == 1
    assert after["loss_scale"] == 2.0**14
    error = given["x"] @ weight.T - given["target"]
    wanted = weight - 0.1 * 2 * error.T @ given["x"]
    assert np.allclose(after["weight"], wanted, atol=1e-5)


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_weights_stay_in_f32_while_products_are_narrow(precision: str) -> None:
    weight = np.ones((2, 3), np.float32)
    recipe = Recipe(SquaredError(), ag.optim.SGD(), scale_loss=precision == "float16")
    step = training_step(line(weight), recipe)
    model = ag.compile(step.module, precision=precision)
    model.reset(step.initial({"weight": weight}))
    for _ in range(8):  # the factor is too large at first
        model(**feed(), lr=np.float32(1e-6))
    moved = model.compiled.states["weight"].read().result()
    assert moved.dtype == np.float32
    assert 0 < np.abs(moved - weight).max() < 1e-3
