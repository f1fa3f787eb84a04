"""The graph of a training step: outputs, loss, gradients, and new weights.

Of a module that computes outputs, `training_step` makes one whose main function takes a batch of
inputs and targets and a learning rate, returns the loss, and updates the weights, which are state.
`evaluation_step` makes one that reads the same state and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from afterglow.autodiff import gradients
from afterglow.driver.pipelines import forward_pipeline
from afterglow.graph import Builder, Function, Module, Value
from afterglow.graph.value import Placeholder
from afterglow.ops.elementwise import Add
from afterglow.optim import Optimizer
from afterglow.support.errors import UsageError
from afterglow.training.mode import to_training_mode
from afterglow.training.parameters import (
    Parameter,
    matching,
    store_as_read,
    to_states,
    weights_of,
)
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, i64

LOSS = "loss"
RATE = "lr"
STEP = "step"


class Loss(Protocol):
    """What a training step needs of a loss."""

    def targets(self, outputs: tuple[TensorType, ...]) -> tuple[tuple[str, TensorType], ...]:
        """Names and types of what a model with these outputs is compared with."""

    def emit(self, b: Builder, outputs: tuple[Value, ...], targets: tuple[Value, ...]) -> Value:
        """Emit the loss, a scalar."""


@dataclass(frozen=True)
class Recipe:
    """What is learnt, from what, and how."""

    loss: Loss
    optimizer: Optimizer
    trainable: tuple[str, ...] = ("*",)
    """Names of the constants that train, as patterns with stars."""


@dataclass(frozen=True)
class TrainingStep:
    """A module whose main function is a step, and what of its state are weights."""

    module: Module
    parameters: tuple[Parameter, ...]
    inputs: tuple[str, ...]
    """The inputs of the model."""
    targets: tuple[str, ...]
    """The inputs that are what outputs should be."""
    rate: str = ""
    """The input that is the learning rate, if the step learns."""
    slots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The states that the optimizer has for each parameter that trains."""
    count: str = ""
    """The state that counts steps, if the step learns."""

    def initial(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """What states begin with that are not zeros, for values of constants by name."""
        return {p.name: p.to_state(values[p.name]) for p in self.parameters}


def training_step(
    source: Module,
    recipe: Recipe,
    *,
    outputs: bool = False,
    like: Sequence[Parameter] | None = None,
) -> TrainingStep:
    """The training step of a model whose shapes are exact; the model is left as it is.

    With `outputs` it returns those of the model, too, after the loss. Weights are held as another
    step of the model, for another batch, holds its parameters `like` them.
    """
    module = source.clone()
    main = module.main
    inputs = tuple(placeholder.name for placeholder in main.inputs)
    step = module.state(STEP, TensorType(i64, ()))
    statistics = to_training_mode(main, step)
    weights = _trainable(main, recipe.trainable) if like is None else [p for p in like if p.trains]
    states = to_states(main, weights)
    targets = _append_loss(main, recipe.loss, keep=outputs)
    forward_pipeline().run(module)
    if like is None:
        weights = store_as_read(main, weights, states)
    slots = _learn(main, recipe, states, step)
    rate = main.inputs[-1].name
    parameters = (*weights, *statistics)
    return TrainingStep(module, parameters, inputs, targets, rate, slots, step.name)


def evaluation_step(source: Module, trained: TrainingStep, loss: Loss | None) -> TrainingStep:
    """Loss and outputs of a model with the state of a training step, which it does not change."""
    module = source.clone()
    main = module.main
    to_states(main, trained.parameters)
    targets = () if loss is None else _append_loss(main, loss, keep=True)
    return TrainingStep(module, trained.parameters, trained.inputs, targets)


def _trainable(main: Function, patterns: Sequence[str]) -> list[Parameter]:
    """The constants that train."""
    weights = {constant.name: constant for constant in weights_of(main)}
    if not weights:
        raise UsageError(
            "the model has no weights to train",
            help="weights are constants of floats with at least one axis that outputs depend on",
        )
    names = matching(weights, patterns, "weight")
    return [Parameter(name, weights[name].type) for name in names]


def _append_loss(main: Function, loss: Loss, *, keep: bool) -> tuple[str, ...]:
    """Return the loss, and after it what the function returned if `keep`; names of the targets."""
    outputs = tuple(output.value for output in main.outputs)
    wanted = loss.targets(tuple(output.type for output in outputs))
    targets = tuple(main.input(name, type) for name, type in wanted)
    value = loss.emit(Builder(main), outputs, targets)
    before = main.outputs[:] if keep else []
    main.outputs.clear()
    main.output(LOSS, value)
    main.outputs.extend(before)
    return tuple(target.name for target in targets)


def _learn(
    main: Function, recipe: Recipe, states: Mapping[str, Placeholder], step: Placeholder
) -> dict[str, tuple[str, ...]]:
    """Emit gradients and updates of the states; the names of the optimizer's own states."""
    b = Builder(main)
    found = gradients(b, [main.outputs[0].value], [*states.values()])
    slopes = {name: grad for name, grad in zip(states, found, strict=True) if grad is not None}
    if not slopes:
        raise UsageError(
            "the loss depends on none of the weights that train",
            help=f"they are {', '.join([*states][:8])}",
        )
    rate = main.input(RATE, TensorType(f32, ()))
    count = b.emit(Add(), step, b.constant(np.array(1), "one"))
    slots = {
        name: _update(b, recipe.optimizer, states[name], slope, rate, count)
        for name, slope in slopes.items()
    }
    main.update(step, count)
    return slots


def _update(
    b: Builder, optimizer: Optimizer, weight: Placeholder, slope: Value, rate: Value, count: Value
) -> tuple[str, ...]:
    """Emit new values of a weight and of the optimizer's states for it; the names of these."""
    module = b.function.module
    slots = [module.state(f"{weight.name}.{slot}", weight.type) for slot in optimizer.slots]
    new, moved = optimizer.update(b, weight, slope, rate, count, tuple(slots))
    b.function.update(weight, new)
    for slot, value in zip(slots, moved, strict=True):
        b.function.update(slot, value)
    return tuple(slot.name for slot in slots)
