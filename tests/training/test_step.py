"""Training steps: what they compute, and what becomes state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import afterglow as ag
from afterglow.graph import Builder, Value
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add, Mul, Sub
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.reduction import ReduceSum
from afterglow.training.parameters import matching
from afterglow.training.programs import Memory
from afterglow.training.step import Recipe, evaluation_step, training_step
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32


@dataclass(frozen=True)
class SquaredError:
    """The sum of squared differences of the first output."""

    def targets(self, outputs: tuple[TensorType, ...]) -> tuple[tuple[str, TensorType], ...]:
        return (("target", outputs[0]),)

    def emit(self, b: Builder, outputs: tuple[Value, ...], targets: tuple[Value, ...]) -> Value:
        error = b.emit(Sub(), outputs[0], targets[0])
        return b.emit(ReduceSum((0, 1), keepdims=False), b.emit(Mul(), error, error))


def line(weight: Array) -> ag.Module:
    """x times the transpose of a weight."""
    module = ag.Module()
    f = ag.Function("main", module)
    x = f.input("x", TensorType(f32, (4, 3)))
    b = Builder(f)
    turned = b.emit(Transpose((1, 0)), module.constant("weight", weight))
    f.output("y", b.emit(MatMul(), x, turned))
    return module


@pytest.fixture
def weight() -> Array:
    return np.arange(6, dtype=np.float32).reshape(2, 3) / 8


def feed() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    x, target = rng.standard_normal((4, 3)), rng.standard_normal((4, 2))
    return {"x": x.astype(np.float32), "target": target.astype(np.float32)}


def test_a_step_moves_weights_against_their_gradient(weight: Array) -> None:
    step = training_step(line(weight), Recipe(SquaredError(), ag.optim.SGD(lr=0.1)))
    model = ag.compile(step.module, backend="interpreter")
    model.reset(step.initial({"weight": weight}))
    given = feed()
    error = given["x"] @ weight.T - given["target"]
    loss = model(**given, lr=np.float32(0.1))
    assert np.isclose(loss, (error**2).sum(), rtol=1e-6)
    moved = weight - 0.1 * 2 * error.T @ given["x"]
    (parameter,) = step.parameters
    state = model.compiled.states["weight"].read().result()
    assert np.allclose(parameter.from_state(state), moved, atol=1e-6)


def test_a_weight_that_is_only_read_transposed_is_stored_so() -> None:
    module = ag.Module()
    f = ag.Function("main", module)
    x = f.input("x", TensorType(f32, (2, 1, 2, 3)))
    kernel = np.arange(12, dtype=np.float32).reshape(2, 3, 1, 2)
    b = Builder(f)
    turned = b.emit(Transpose((0, 2, 3, 1)), module.constant("kernel", kernel))
    y = b.emit(Conv((1, 1), (0, 0, 0, 0), (1, 1)), x, turned)
    f.output("y", b.emit(Reshape((2, 2)), y))
    step = training_step(module, Recipe(SquaredError(), ag.optim.SGD(momentum=0.9)))
    (parameter,) = step.parameters
    assert parameter.axes == (0, 2, 3, 1)
    assert step.module.states["kernel"].type.shape == (2, 1, 2, 3)
    assert step.slots == {"kernel": ("kernel.velocity",)}
    assert step.initial({"kernel": kernel})["kernel"][0].tolist() == [[[0, 2, 4], [1, 3, 5]]]


def test_an_evaluation_has_the_state_of_the_step(weight: Array) -> None:
    step = training_step(line(weight), Recipe(SquaredError(), ag.optim.SGD(lr=0.1)))
    model = ag.compile(step.module, backend="interpreter")
    model.reset(step.initial({"weight": weight}))
    judge = ag.compile(
        evaluation_step(line(weight), step, SquaredError()).module, backend="interpreter"
    )
    memory = Memory({})
    memory.join(model.compiled)
    memory.join(judge.compiled)
    given = feed()
    before, _ = judge(**given)
    assert model(**given, lr=np.float32(0.05)) == before
    after, _ = judge(**given)
    assert after < before


def test_a_pattern_that_matches_no_weight_is_an_error(weight: Array) -> None:
    recipe = Recipe(SquaredError(), ag.optim.SGD(), trainable=("head.*",))
    with pytest.raises(ag.UsageError) as caught:
        training_step(line(weight), recipe)
    assert str(caught.value) == ("error: no weight matches 'head.*'\n  help: there are weight")


def test_masks_and_scales_of_exported_models_are_no_weights() -> None:
    module = ag.Module()
    f = ag.Function("main", module)
    b = Builder(f)
    x = f.input("x", TensorType(f32, (4, 1)))
    scaled = b.emit(Mul(), x, module.constant("scale", np.full(1, 0.5, np.float32)))
    masked = b.emit(Add(), scaled, module.constant("mask", np.full((4, 1), -np.inf, np.float32)))
    f.output("y", b.emit(Add(), masked, module.constant("bias", np.ones(1, np.float32))))
    step = training_step(module, Recipe(SquaredError(), ag.optim.SGD()))
    assert [parameter.name for parameter in step.parameters] == ["bias"]


def test_a_weight_that_depends_on_the_batch_is_an_error(weight: Array) -> None:
    recipe = Recipe(SquaredError(), ag.optim.SGD())
    step = training_step(line(weight), recipe)
    other = line(weight)
    other.constants["weight"].name = "weight_1"
    other.constants["weight_1"] = other.constants.pop("weight")
    with pytest.raises(ag.UsageError) as caught:
        training_step(other, recipe, like=step.parameters)
    assert caught.value.what == (
        "weight 'weight' depends on the size of the batch: "
        f"it was {step.parameters[0].type}, and there is none for this one"
    )


def test_a_name_with_brackets_is_found_as_it_is() -> None:
    assert matching(["layers[0].weight", "bias"], ["layers[0].weight"], "weight") == [
        "layers[0].weight"
    ]
