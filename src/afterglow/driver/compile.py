"""`compile` and `import_model`: the public way in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from afterglow.driver.options import Options, Progress, verify_by_default
from afterglow.driver.sources import Source, open_source
from afterglow.driver.stages import Stages, find_backend
from afterglow.frontends.onnx import NeedsValuesError, UnboundDimensionsError
from afterglow.graph import Array, Module, print_module
from afterglow.instr import print_program
from afterglow.runtime import CompiledModel
from afterglow.runtime.model import Specialiser, Version
from afterglow.support.errors import UsageError
from afterglow.support.sizes import parse_size

STAGES = ("import", "graph", "lowered", "instructions")
"""The stages that can be printed, in order."""


def compile(
    source: Any,
    *,
    backend: str = "interpreter",
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, Array] | None = None,
    optimize: bool = True,
    lend_inputs: bool = False,
    max_arena: int | str | None = None,
    verify: bool | None = None,
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile a model: a path, bytes, an `onnx.ModelProto`, or a `Module` built by hand.

    `shapes` and `dims` bind free dimensions, by input or by name; `values` makes inputs constant.
    What stays free is bound by the first call, and by each call with other shapes.
    `lend_inputs` lets a run use the memory of its input arrays: what they hold afterwards is
    undefined. `max_arena` is the most that intermediate results may take, in bytes or as text such
    as "256KiB"; if they take more, nodes are computed in parts, and some of it twice.
    """
    options = Options(
        backend=backend,
        shapes=shapes or {},
        dims=dims or {},
        values=values or {},
        optimize=optimize,
        lend_inputs=lend_inputs,
        max_arena=parse_size(max_arena) if isinstance(max_arena, str) else max_arena,
        verify=verify_by_default() if verify is None else verify,
        progress=progress,
    )
    return compile_with(source, options)


def compile_with(source: Any, options: Options) -> CompiledModel:
    """The same with options as one value."""
    find_backend(options.backend)
    recipe = Recipe(open_source(source), options)
    try:
        version = recipe.build(options)
    except (UnboundDimensionsError, NeedsValuesError):
        return CompiledModel(recipe.source.signature(options), recipe, None)
    return CompiledModel(version.signature, recipe, version)


def import_model(
    source: Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, Array] | None = None,
) -> Module:
    """The graph IR of a model, as imported: to inspect, edit, print, or compile.

    Outputs that are sequences have become several tensors, those that are nothing none.
    """
    options = Options(shapes=shapes or {}, dims=dims or {}, values=values or {})
    return open_source(source).load(options)[0]


class Recipe(Specialiser):
    """A source and options: compiles it anew for each binding of what is free."""

    def __init__(self, source: Source, options: Options) -> None:
        self.source = source
        self.options = options
        self.last = options

    def build(self, options: Options, value_inputs: Iterable[str] = ()) -> Version:
        """All stages for one binding, which depends on the values of `value_inputs`."""
        self.last = options
        if options.progress is not None:
            options.progress("import")
        module, forms = self.source.load(options)
        return Version(Stages(options).finish(module), forms, frozenset(value_inputs))

    def compile_for(self, feed: Mapping[str, Any]) -> Version:
        """Bind the shapes of the inputs, and the values of those that decide shapes."""
        shapes = {name: x.shape for name, x in feed.items() if isinstance(x, np.ndarray)}
        bound: dict[str, Any] = {}
        while True:
            values = {**self.options.values, **bound}
            try:
                options = replace(self.options, shapes=shapes, dims={}, values=values)
                return self.build(options, bound)
            except NeedsValuesError as error:
                new = {name: copy(feed[name]) for name in error.inputs if name in feed}
                if not new.keys() - bound.keys():
                    raise
                bound.update(new)

    def stage(self, name: str) -> str:
        """The text of a stage, made anew with the binding used last."""
        if name not in STAGES:
            raise UsageError(f"no stage {name!r}", help=f"there are {', '.join(STAGES)}")
        stages = Stages(replace(self.last, progress=None))
        module, _ = self.source.load(self.last)
        if name == "import":
            return print_module(module)
        stages.optimise(module)
        if name == "graph":
            return print_module(module)
        stages.lower(module)
        return print_module(module) if name == "lowered" else print_program(stages.plan(module)[0])
