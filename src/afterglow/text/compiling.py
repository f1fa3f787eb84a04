"""Compiling a language model of any front end for generating."""

from __future__ import annotations

from typing import Any

from afterglow.driver.api import compile
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.runtime import CompiledModel
from afterglow.text.decoder import INPUTS
from afterglow.text.past_form import PastForm


def compile_text_model(
    model: Any, context: int | None, sequences: int | None, **options: Any
) -> CompiledModel:
    """Compile a language model for a context and a number of sequences, or the model's own.

    A model that takes its past as inputs keeps it as state, and serves one sequence.
    """
    signature = open_source(model).signature(Options())
    if {info.name for info in signature.inputs} == set(INPUTS):
        sizes = {"context": context, "sequences": sequences}
        given = {name: size for name, size in sizes.items() if size is not None}
        return compile(model, dims={**given, **options.pop("dims", {})}, **options)
    form = PastForm.of(signature.inputs, signature.outputs, context)
    dims = {**form.dims, **options.pop("dims", {})}
    return compile(model, dims=dims, state={**form.state, **options.pop("state", {})}, **options)
