"""Verbs on models that are compiled already: saved ones, and the libraries of bundles."""

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

_OF_A_RUN = ("model", "shapes", "dims", "threads", "no_cache", "inputs", "seed")
"""Options of all verbs that mean something to a compiled model."""


def load_saved(request: Request, *others: str) -> CompiledModel:
    """Load a compiled model; options besides those of a run, and these others, are refused."""
    refuse_options(request, (*_OF_A_RUN, *others))
    options = request.options
    return load(request.path, threads=options.threads, cache=options.cache or False)


def is_given(name: str) -> bool:
    """Whether the command line has an option, rather than its default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def refuse_options(request: Request, taken: Sequence[str]) -> None:
    """Say which option comes too late for a model that is compiled."""
    for parameter in click.get_current_context().command.params:
        name = parameter.name or ""
        if is_given(name) and parameter.expose_value and name not in taken:
            raise UsageError(
                f"{parameter.opts[0]} means nothing to {request.path}: it is compiled already",
                help=f"give it where the model is compiled: afterglow compile MODEL -o "
                f"{Path(request.path).name} {parameter.opts[0]} …",
            )


def no_other_engine(request: Request, option: str) -> UsageError:
    """The error of a comparison for which there is no model that others could run."""
    return UsageError(
        f"{request.path} is compiled: no other engine runs it, to compare with",
        help=f"give the model it was made of, or leave {option} out",
    )


def saved_feed(
    model: CompiledModel, request: Request, given: Sequence[str], seed: int
) -> dict[str, Array]:
    """An array for each input; what is not bound is as the only version wants it."""
    held = model.shapes_held()
    options = request.options
    if len(held) == 1 and not options.dims:
        only = {name: shape for name, shape in held[0].items() if shape is not None}
        request = replace(request, options=replace(options, shapes={**only, **options.shapes}))
    try:
        return build_feed(model.inputs, request, given, seed)
    except FreeInputError as error:
        listed = "; ".join(_shown(model.inputs, shapes) for shapes in held)
        error.help = f"choose with --dim or --shapes what it was compiled for: {listed}"
        raise


def _shown(inputs: Sequence[TensorInfo], shapes: Mapping[str, Any]) -> str:
    return ", ".join(str(replace(info, shape=shapes[info.name])) for info in inputs)
