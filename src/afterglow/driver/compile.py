"""Compiling a model from end to end, and anew for each binding of what is free in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from afterglow.driver.backends import check_devices, compile_module, partitioned
from afterglow.driver.bodies import Bodies
from afterglow.driver.bound import BoundValues
from afterglow.driver.bundles import compile_bundle
from afterglow.driver.cache import CompileCache, is_cacheable, model_key
from afterglow.driver.described import describe_options
from afterglow.driver.dims import DimOptions, Dims
from afterglow.driver.made import made_from
from afterglow.driver.options import Options, check_bindings, model_title
from afterglow.driver.profiled import open_profiled
from afterglow.driver.ranges import Ranges, given_ranges
from afterglow.driver.sources import Source, open_source
from afterglow.driver.specialise import CallSpecialiser
from afterglow.driver.stages import Stages
from afterglow.driver.state import check_kept, import_with_state
from afterglow.frontends.base import NeedsValuesError, UnboundDimensionsError
from afterglow.frontends.partition import remainder_of
from afterglow.graph import Module, print_module
from afterglow.instr import print_program
from afterglow.runtime import CompiledModel, Signature
from afterglow.runtime.bundle import Bundle, BundleRequest
from afterglow.runtime.compiled import CompiledFunction
from afterglow.runtime.segmented import SegmentedVersion
from afterglow.runtime.version import SourceLeft, Specialiser, Version
from afterglow.support.collection import without_collecting
from afterglow.support.errors import (
    FAULTS,
    AfterglowError,
    MemoryLimitError,
    UsageError,
    lacks_memory,
    out_of_memory,
)
from afterglow.types import Array, OutputForm
from afterglow.types.extent import Dim, UndecidedExtentError, is_ranged, largest, smallest

PARTITIONS = "partitions"
PARTITIONED_STAGES = ("import", "graph", PARTITIONS)
"""The stages that can be printed of a model on several devices: each compiles its own parts."""
STAGES = ("import", "graph", "lowered", "instructions", "llvm", "asm")
"""The stages that can be printed, in order."""


def compile_with(
    source: Any, options: Options, dim_options: DimOptions | None = None
) -> CompiledModel:
    """Compile a model; `dim_options` lists and limits extents that `options` leave dynamic."""
    check_devices(options)
    recipe = Recipe(open_profiled(source, options), options)
    return compile_recipe(recipe, dim_options or DimOptions())


def compile_recipe(recipe: Recipe, dim_options: DimOptions) -> CompiledModel:
    """Compile what can be compiled before there is a call."""
    options, signature = recipe.options, recipe.signature
    help = f"shapes bind all dimensions of {', '.join(map(repr, options.shapes))}"
    dim_options.check_names(signature.inputs, help=help if options.shapes else "")
    bindings = [replace(options, dims={**options.dims, **dims}) for dims in dim_options.bindings()]
    ahead = [recipe.build_ahead(binding) for binding in bindings]
    check_kept(recipe.source, options, ahead, recipe.refused_ranges())
    _check_interface(options, ahead)
    if isinstance(ahead[0], Version) and not dim_options.ahead:
        return CompiledModel(ahead[0].signature, recipe, ahead[0])
    model = CompiledModel(signature, recipe, None, dim_options.ranges)
    for binding, version in zip(bindings, ahead, strict=True):
        if version is not None:
            bound = recipe.source.signature(binding)
            model.keep(version, [info.exact_shape for info in bound.inputs])
    return model


def _check_interface(options: Options, ahead: Sequence[object]) -> None:
    """Refuse inputs and outputs of integers for a model that is compiled anew by calls."""
    config = options.quantization
    if config is None or not config.quantized_io:
        return
    if len(ahead) > 1 or not isinstance(ahead[0], Version):
        raise UsageError(
            "inputs and outputs can be integers only of a model that is compiled once",
            help="bind all dimensions with dims or shapes, or give their bounds",
        )


def import_model(
    source: Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Dims | None = None,
    values: Mapping[str, Array] | None = None,
) -> Module:
    """The graph IR of a model, as imported: to inspect, edit, print, or compile.

    Outputs that are sequences have become several tensors, those that are nothing none. Of `dims`,
    a tuple gives bounds, as for `compile`.
    """
    check_bindings(shapes, dims, values)
    bound = DimOptions.of(dims or {}).bound
    options = Options(shapes=shapes or {}, dims=bound, values=values or {})
    return import_with_state(open_source(source), options)[0]


class Recipe(Specialiser):
    """A source and options: compiles it anew for each binding of what is free."""

    def __init__(self, source: Source, options: Options) -> None:
        self.source = source
        self.options = options
        self.last = options
        self.bound = BoundValues()
        self.data_lengths = True
        """Whether data may tell lengths in loops: not once that could not be compiled."""
        self.ranges = Ranges(given_ranges(options.dims))
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
            # what tuning leaves may be large
            with without_collecting() if options.tune is None else nullcontext():
                compiled, forms = self._compiled(options)
            version = Version(
                compiled, forms, frozenset(value_inputs), attachments=self.source.attachments
            )
        except (MemoryError, ValueError) as error:
            if not lacks_memory(error):
                raise
            raise out_of_memory("compile the model", error) from None
        if cache is not None and key is not None:
            cache.put(key, version, made_from(self.source.files(), options, digests=False))
        return version

    def _compiled(self, options: Options) -> tuple[CompiledFunction, tuple[OutputForm, ...]]:
        """A program; without lengths that data tell in loops, if no code can have them."""
        options = replace(options, data_lengths=options.data_lengths and self.data_lengths)
        module, forms = import_with_state(self.source, options)
        has_bodies = len(module.functions) > 1
        try:
            return compile_module(module, options), forms
        except UndecidedExtentError as error:
            if not options.data_lengths or not has_bodies:
                raise
            undecided = error
        try:
            found = self._compiled(replace(options, data_lengths=False))
        except UndecidedExtentError:
            raise undecided from None
        except NeedsValuesError:
            self.data_lengths = False
            raise
        self.data_lengths = False
        return found

    def made_from(self) -> Mapping[str, Any]:
        """The compiler, the model's files and the options, as a file says it."""
        return made_from(self.source.files(), self.last)

    def build_ahead(self, options: Options) -> Version | SegmentedVersion | None:
        """All that can be compiled before there is a call; None if that is nothing."""
        given = given_ranges(options.dims)
        try:
            return self._build_ahead(options)
        except MemoryLimitError as error:
            if not given:
                raise
            raise beyond_bounds(error, given) from None
        except (AfterglowError, *FAULTS) as error:
            if not given:
                raise
            self._check_ends(options, given)
            self.ranges.refuse(error, given)
            return None

    def _build_ahead(self, options: Options) -> Version | SegmentedVersion | None:
        try:
            return self.build(options)
        except UnboundDimensionsError:
            return None
        except NeedsValuesError as error:
            inputs = self.source.signature(options).inputs
            return self.specialiser(options).compile_first(error, inputs)

    def _check_ends(self, options: Options, given: Mapping[str, Dim]) -> None:
        """Raise if the model cannot have the smallest or the largest extents within bounds."""
        for end in (largest, smallest):
            dims = {name: end(extent) for name, extent in options.dims.items()}
            try:
                self.source.load(replace(options, dims=dims))
            except (UnboundDimensionsError, NeedsValuesError):
                return
            except AfterglowError as error:
                raise beyond_bounds(error, given, {name: dims[name] for name in given}) from None

    def _key(self, cache: CompileCache, options: Options) -> str | None:
        """The key of the model in the cache; None if it is not cached."""
        if not is_cacheable(options):
            return None
        digest = self.source.digest(cache)
        return None if digest is None else model_key(digest, options)

    @cached_property
    def signature(self) -> Signature:
        """What the model takes and gives; dimensions with bounds are shown by name."""
        fixed = {name: e for name, e in self.options.dims.items() if not is_ranged(e)}
        return self.source.signature(replace(self.options, dims=fixed))

    def compile_for(self, feed: Mapping[str, Any]) -> Version | SegmentedVersion:
        """Bind the shapes of the inputs or ranges around them, and values that decide more."""
        ranges, specialiser = deepcopy(self.ranges), self.specialiser(self.options)
        declared = {info.name: info.shape for info in self.signature.inputs}
        version = ranges.find(declared, feed, lambda ranged: specialiser.compile_for(feed, ranged))
        if version is None:  # an error is not about ranges now
            version = specialiser.compile_for(feed)
        self.ranges = ranges
        return version

    def refused_ranges(self) -> Mapping[str, str]:
        """The dimensions that no program could be ranged over, each with the reason."""
        return self.ranges.refused

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
        if self.last.devices:
            return self._partitioned_stage(name)
        stages = Stages(replace(self.last, progress=None))
        known = dict.fromkeys((*STAGES, *stages.languages))
        if name not in known:
            raise UsageError(f"no stage {name!r}", help=f"there are {', '.join(known)}")
        module, _ = import_with_state(self.source, self.last)
        if name == "import":
            return print_module(module)
        stages.optimise(module)
        if name == "graph":
            return print_module(module)
        stages.lower(module)
        if name == "lowered":
            return print_module(module)
        program = stages.plan(stages.divide_batches(module)[0])[0]
        return print_program(program) if name == "instructions" else stages.listing(program, name)

    def _partitioned_stage(self, name: str) -> str:
        """The text of a stage of a model that several devices run."""
        if name not in PARTITIONED_STAGES:
            known = ", ".join(PARTITIONED_STAGES)
            raise UsageError(
                f"no stage {name!r} of a model on several devices", help=f"there are {known}"
            )
        stages = partitioned(replace(self.last, progress=None))
        module, _ = import_with_state(self.source, self.last)
        if name == PARTITIONS:
            return str(stages.plan(module))
        return print_module(module if name == "import" else stages.whole.optimise(module))


def beyond_bounds(
    error: AfterglowError, given: Mapping[str, Dim], extents: Mapping[str, int] | None = None
) -> AfterglowError:
    """An error of a model with extents at an end of their bounds, the last one, which says so."""
    extents = {name: dim.high for name, dim in given.items()} if extents is None else extents
    where = ", ".join(f"{name} = {extent}" for name, extent in extents.items())
    bounds = ", ".join(f"{name} {dim.range_text}" for name, dim in given.items())
    error.where = f"{error.where}, with {where}" if error.where else f"with {where}"
    more = f", or {error.help}" if error.help and isinstance(error, MemoryLimitError) else ""
    error.help = f"give bounds within which the model works, instead of {bounds}{more}"
    return error
