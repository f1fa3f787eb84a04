"""Loads compiled models for commands: saved models, and the shared libraries of bundles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from afterglow.cli.feed import FreeInputError, build_feed
from afterglow.cli.request import Request
from afterglow.driver.load import load
from afterglow.runtime import CompiledModel, TensorInfo
from afterglow.support.errors import UsageError
from afterglow.types import Array
from afterglow.types.extent import Dim, largest, ranged

_OF_A_RUN = ("model", "shapes", "dims", "threads", "no_cache", "inputs", "seed")
"""Options of all commands that also apply to compiled models."""


def load_saved(request: Request, *others: str) -> CompiledModel:
    """Load a compiled model; raise if options are given that only apply when compiling."""
    refuse_options(request, (*_OF_A_RUN, *others))
    options = request.options
    return load(request.path, threads=options.threads, cache=options.cache or False)


def is_given(name: str) -> bool:
    """Whether an option was given on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def refuse_options(request: Request, taken: Sequence[str]) -> None:
    """Raise if an option was given that is not in `taken`."""
    for parameter in click.get_current_context().command.params:
        name = parameter.name or ""
        if is_given(name) and parameter.expose_value and name not in taken:
            raise UsageError(
                f"{parameter.opts[0]} has no effect on {request.path}: it is already compiled",
                help=f"give it when the model is compiled: afterglow compile MODEL -o "
                f"{Path(request.path).name} {parameter.opts[0]} …",
            )


def no_other_engine(request: Request, option: str) -> UsageError:
    """The error for comparing a compiled model, which no other engine can run."""
    return UsageError(
        f"{request.path} is compiled: no other engine can run it for comparison",
        help=f"give the original model, or omit {option}",
    )


def saved_feed(
    model: CompiledModel,
    request: Request,
    given: Sequence[str],
    seed: int,
    known: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """An array for each input; if the model has one version, that supplies unbound shapes.

    Where nothing tells the extent of a dimension with bounds, it is the largest.
    """
    held = model.shapes_held()
    options = request.options
    if len(held) == 1 and not options.dims:
        shapes = ((name, shape) for name, shape in held[0].items() if shape is not None)
        only = {name: tuple(map(largest, shape)) for name, shape in shapes}
        request = replace(request, options=replace(options, shapes={**only, **options.shapes}))
    elif model.is_static:
        bounds = {name: ranged(Dim(name, *bounds)) for name, bounds in model.dims.items()}
        request = replace(request, options=replace(options, dims={**bounds, **options.dims}))
    try:
        return build_feed(model.inputs, request, given, seed, known)
    except FreeInputError as error:
        listed = "; ".join(_shown(model.inputs, shapes) for shapes in held)
        error.help = f"choose one of its versions with --dim or --shapes: {listed}"
        raise


def _shown(inputs: Sequence[TensorInfo], shapes: Mapping[str, Any]) -> str:
    return ", ".join(str(replace(info, shape=shapes[info.name])) for info in inputs)
