"""The graph of a training step: outputs, loss, gradients, and new weights.

Of a module that computes outputs, `training_step` makes one whose main function takes a batch of
inputs and targets and a learning rate, returns the loss, and updates the weights, which are state.
`evaluation_step` makes one that reads the same state and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from afterglow.autodiff import gradients
from afterglow.driver.pipelines import forward_pipeline
from afterglow.graph import Builder, Function, Module, Value
from afterglow.graph.value import Placeholder
from afterglow.ops.elementwise import Add
from afterglow.optim import Loss, Optimizer
from afterglow.optim.clip import clip_by_global_norm, clip_by_value
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.training.accumulate import Accumulation
from afterglow.training.loss_scale import LossScale
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


@dataclass(frozen=True)
class Recipe:
    """What is learnt, from what, and how."""

    loss: Loss
    optimizer: Optimizer
    trainable: tuple[str, ...] = ("*",)
    """Names of the constants that train, as patterns with stars."""
    frozen_norms: tuple[str, ...] = ()
    """Names of running means whose batch norms keep their statistics, as patterns with stars."""
    scale_loss: bool = False
    """Whether the loss is scaled, for gradients of 16-bit floats."""
    seed: int = 0
    """What random numbers of the step depend on, beside its number."""
    clip_value: float | None = None
    """The most that an element of a gradient may be, up or down; None for no limit."""
    clip_norm: float | None = None
    """The most that the norm of all gradients together may be; None for no limit."""


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
    begins: Mapping[str, Array] = field(default_factory=dict)
    """What other states begin with that are not zeros."""

    def initial(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """What states begin with that are not zeros, for values of constants by name."""
        return {**self.begins, **{p.name: p.to_state(values[p.name]) for p in self.parameters}}


def training_step(
    source: Module,
    recipe: Recipe,
    *,
    outputs: bool = False,
    like: Sequence[Parameter] | None = None,
    last_part: bool | None = None,
) -> TrainingStep:
    """The training step of a model whose shapes are exact; the model is left as it is.

    With `outputs` it returns those of the model, too, after the loss. Weights are held as another
    step of the model, for another batch, holds its parameters `like` them. If `last_part` says so
    or not, it learns from a part of a batch: the last one updates the weights.
    """
    module = source.clone()
    main = module.main
    inputs = tuple(placeholder.name for placeholder in main.inputs)
    step = module.state(STEP, TensorType(i64, ()))
    parts = None if last_part is None else Accumulation.declare(main, is_last=last_part)
    number = step if parts is None else parts.number(main, step)
    statistics = to_training_mode(main, number, frozen=recipe.frozen_norms, seed=recipe.seed)
    weights = _trainable(main, recipe.trainable) if like is None else [p for p in like if p.trains]
    states = to_states(main, weights)
    targets = _append_loss(main, recipe.loss, keep=outputs)
    forward_pipeline().run(module)
    if like is None:
        weights = store_as_read(main, weights, states)
    slots = _learn(main, recipe, states, step, parts)
    return TrainingStep(
        module,
        (*weights, *statistics),
        inputs,
        targets,
        rate=main.inputs[-1].name,
        slots=slots,
        begins=LossScale.initial() if recipe.scale_loss else {},
    )


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
    main: Function,
    recipe: Recipe,
    states: Mapping[str, Placeholder],
    step: Placeholder,
    parts: Accumulation | None,
) -> dict[str, tuple[str, ...]]:
    """Emit gradients and updates of the states; the names of the optimizer's own states."""
    b = Builder(main)
    scale = LossScale.declare(main.module) if recipe.scale_loss else None
    slopes = _gradients(b, main.outputs[0].value, states, scale)
    if parts is not None:
        sums = parts.sums(b, slopes)
        slopes = {name: value for name, (_, value) in sums.items()}
        if not parts.is_last:
            for held, value in sums.values():
                main.update(held, value)
            return {}
    rate = main.input(RATE, TensorType(f32, ()))
    count = b.emit(Add(), step, b.constant(np.array(1), "one"))
    updates: list[tuple[Placeholder, Value]] = [(step, count)]
    slots = {}
    for name, slope in _clipped(b, slopes, recipe).items():
        found = _updates(b, recipe.optimizer, states[name], slope, rate, count)
        slots[name] = tuple(slot.name for slot, _ in found[1:])
        updates += found
    if scale is not None:
        updates = scale.guarded(b, [*slopes.values()], updates)
    for state, value in updates:
        main.update(state, value)
    return slots


def _gradients(
    b: Builder, loss: Value, states: Mapping[str, Placeholder], scale: LossScale | None
) -> dict[str, Value]:
    """The gradients of the states that the loss depends on."""
    seeds = None if scale is None else [scale.factor]
    found = gradients(b, [loss], [*states.values()], seeds)
    slopes = {name: slope for name, slope in zip(states, found, strict=True) if slope is not None}
    if not slopes:
        raise UsageError(
            "the loss depends on none of the weights that train",
            help=f"they are {', '.join([*states][:8])}",
        )
    if scale is None:
        return slopes
    return dict(zip(slopes, scale.unscaled(b, [*slopes.values()]), strict=True))


def _clipped(b: Builder, slopes: Mapping[str, Value], recipe: Recipe) -> dict[str, Value]:
    """Gradients within the limits that there are."""
    clipped = tuple(slopes.values())
    if recipe.clip_value is not None:
        clipped = clip_by_value(b, clipped, recipe.clip_value)
    if recipe.clip_norm is not None:
        clipped, _ = clip_by_global_norm(b, clipped, recipe.clip_norm)
    return dict(zip(slopes, clipped, strict=True))


def _updates(
    b: Builder, optimizer: Optimizer, weight: Placeholder, slope: Value, rate: Value, count: Value
) -> list[tuple[Placeholder, Value]]:
    """Emit the new value of a weight, which is first, and of the optimizer's states for it."""
    module = b.function.module
    slots = [module.state(f"{weight.name}.{slot}", weight.type) for slot in optimizer.slots]
    new, moved = optimizer.update(b, weight, slope, rate, count, tuple(slots))
    return [(weight, new), *zip(slots, moved, strict=True)]
