"""A model that goes on learning where it is deployed: a bundle that trains, infers and starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from afterglow.driver.bundles import compile_functions
from afterglow.driver.options import Options
from afterglow.graph import Builder, Function, Module
from afterglow.ops.fill import Fill
from afterglow.runtime.bundle import Bundle, BundleRequest
from afterglow.training.step import TrainingStep, evaluation_step
from afterglow.types import Array


def export_training(
    modules: Mapping[str, Module],
    folder: Path,
    request: BundleRequest,
    options: Options,
    *,
    shared: bool = False,
) -> Bundle:
    """Write a bundle whose entries are modules that share their state, by name."""
    bundle = compile_functions(modules, options, request)
    return bundle.write(folder, shared=shared, force=request.force, never=[])


def training_entries(
    source: Module, step: TrainingStep, states: Mapping[str, Array]
) -> dict[str, Module]:
    """The modules `train_step`, `infer` and `init`, which have the state of a training step.

    `source` is the model that infers, whose batch need not be that of the step. `init` fills the
    state with what `states` holds by name, and the rest of it with zeros.
    """
    return {
        "train_step": step.module,
        "infer": evaluation_step(source, step, None).module,
        "init": _filling(step.module, states),
    }


def _filling(step: Module, values: Mapping[str, Array]) -> Module:
    """A module that fills the states of a step."""
    module = Module("init")
    function = Function("main", module)
    b = Builder(function)
    for name, state in step.states.items():
        type = state.type
        copy = module.state(name, type)
        if name in values and values[name].any():  # zeros need no place in the bundle
            function.update(copy, b.constant(values[name], f"{name}.initial"))
        else:
            function.update(copy, b.emit(Fill(type.shape, 0, type.dtype)))
    return module
