"""Compiling a language model that takes its past as inputs, so that it keeps it as state."""

from __future__ import annotations

from typing import Any

from afterglow.driver.api import compile
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.runtime import CompiledModel
from afterglow.text.past_form import PastForm


def compile_past_model(
    model: Any, context: int, head_size: int | None = None, **options: Any
) -> CompiledModel:
    """Compile a language model of any front end for a context; `options` are those of `compile`."""
    signature = open_source(model).signature(Options())
    form = PastForm.of(signature.inputs, signature.outputs, context, head_size)
    dims = {**form.dims, **options.pop("dims", {})}
    return compile(model, dims=dims, state={**form.state, **options.pop("state", {})}, **options)
