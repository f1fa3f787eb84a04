"""Compiling a model from end to end, and anew for each binding of what is free in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from afterglow.driver.bodies import Bodies
from afterglow.driver.bound import BoundValues
from afterglow.driver.bundles import compile_bundle
from afterglow.driver.cache import CompileCache, is_cacheable, model_key
from afterglow.driver.dims import DimOptions
from afterglow.driver.options import Options, check_bindings, describe_options, model_title
from afterglow.driver.sources import Source, open_source
from afterglow.driver.specialise import CallSpecialiser
from afterglow.driver.stages import Stages, find_backend
from afterglow.frontends.base import NeedsValuesError, UnboundDimensionsError
from afterglow.frontends.partition import remainder_of
from afterglow.graph import Module, print_module
from afterglow.instr import print_program
from afterglow.runtime import CompiledModel
from afterglow.runtime.bundle import Bundle, BundleRequest
from afterglow.runtime.segmented import SegmentedVersion
from afterglow.runtime.version import SourceLeft, Specialiser, Version
from afterglow.support.errors import UsageError, lacks_memory, out_of_memory
from afterglow.types import Array
from afterglow.types.extent import Dim, ranged

STAGES = ("import", "graph", "lowered", "instructions", "llvm", "asm")
"""The stages that can be printed, in order."""


def compile_with(
    source: Any, options: Options, dim_options: DimOptions | None = None
) -> CompiledModel:
    """Compile a model; `dim_options` lists and limits extents that `options` leave dynamic."""
    find_backend(options)
    dim_options = dim_options or DimOptions()
    recipe = Recipe(open_source(source), options)
    signature = recipe.source.signature(options)
    dim_options.check_names(signature.inputs)
    ranged_dims = {name: ranged(Dim(name, *r)) for name, r in dim_options.ranges.items()}
    ahead = [
        recipe.build_ahead(replace(options, dims={**dims, **ranged_dims}))
        for dims in dim_options.bindings()
    ]
    if isinstance(ahead[0], Version) and not dim_options.ahead:
        return CompiledModel(ahead[0].signature, recipe, ahead[0])
    model = CompiledModel(signature, recipe, None, dim_options.ranges)
    for dims, version in zip(dim_options.bindings(), ahead, strict=True):
        if version is not None:
            bound = recipe.source.signature(replace(options, dims=dims))
            model.keep(version, [info.exact_shape for info in bound.inputs])
    return model


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
    check_bindings(shapes, dims, values)
    options = Options(shapes=shapes or {}, dims=dims or {}, values=values or {})
    return open_source(source).load(options)[0]


class Recipe(Specialiser):
    """A source and options: compiles it anew for each binding of what is free."""

    def __init__(self, source: Source, options: Options) -> None:
        self.source = source
        self.options = options
        self.last = options
        self.bound = BoundValues()
        self.bodies = Bodies(source, options, lambda *body: Recipe(*body).build)

    def build(self, options: Options, value_inputs: Iterable[str] = ()) -> Version:
        """All stages for one binding, which depends on the values of `value_inputs`."""
        self.last = options
        cache = None if options.cache is None else CompileCache(options.cache)
        key = None if cache is None else self._key(cache, options)
        found = None if cache is None or key is None else cache.find(key, options)
        if found is not None:
            return found
        if options.progress is not None:
            options.progress("import")
        try:
            module, forms = self.source.load(options)
            version = Version(Stages(options).finish(module), forms, frozenset(value_inputs))
        except (MemoryError, ValueError) as error:
            if not lacks_memory(error):
                raise
            raise out_of_memory("compile the model", error) from None
        if cache is not None and key is not None:
            cache.put(key, version)
        return version

    def build_ahead(self, options: Options) -> Version | SegmentedVersion | None:
        """All that can be compiled before there is a call; None if that is nothing."""
        try:
            return self.build(options)
        except UnboundDimensionsError:
            return None
        except NeedsValuesError as error:
            inputs = self.source.signature(options).inputs
            return self.specialiser(options).compile_first(error, inputs)

    def _key(self, cache: CompileCache, options: Options) -> str | None:
        """The key of the model in the cache; None if it is not cached."""
        if not is_cacheable(options):
            return None
        digest = self.source.digest(cache)
        return None if digest is None else model_key(digest, options)

    def compile_for(self, feed: Mapping[str, Any]) -> Version | SegmentedVersion:
        """Bind the shapes of the inputs, and go on where values decide more."""
        return self.specialiser(self.options).compile_for(feed)

    def specialiser(self, options: Options) -> CallSpecialiser:
        """What compiles it for a call."""
        return CallSpecialiser(self.source, options, self.build, self.bodies.run, self.bound)

    def export(self, request: BundleRequest, folder: Path, *, shared: bool) -> Bundle:
        """Compile it anew for another target."""
        options = self.options if request.shapes else self.last
        bundle = compile_bundle(self.source, options, request)
        never = self.source.files()
        return bundle.write(folder, shared=shared, force=request.force, never=never)

    def source_left(self, boundaries: Sequence[Collection[str]]) -> SourceLeft:
        """The model without what comes before all boundaries, with options to compile it."""
        left = remainder_of(self.source.graph, boundaries, self.options.values)
        return SourceLeft(describe_options(self.options), left.graph, left.weights)

    def title(self) -> str:
        """What the source is, and what the model is compiled for."""
        return model_title(self.source.path, self.options)

    def stage(self, name: str) -> str:
        """The text of a stage, made anew with the binding used last."""
        stages = Stages(replace(self.last, progress=None))
        known = dict.fromkeys((*STAGES, *stages.languages))
        if name not in known:
            raise UsageError(f"no stage {name!r}", help=f"there are {', '.join(known)}")
        module, _ = self.source.load(self.last)
        if name == "import":
            return print_module(module)
        stages.optimise(module)
        if name == "graph":
            return print_module(module)
        stages.lower(module)
        if name == "lowered":
            return print_module(module)
        program = stages.plan(module)[0]
        return print_program(program) if name == "instructions" else stages.listing(program, name)
