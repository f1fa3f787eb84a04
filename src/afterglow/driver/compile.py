"""`compile`, `load` and `import_model`: the public way in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from afterglow.backends.cpu.bundle import BundleCode
from afterglow.driver.bundles import compile_bundle
from afterglow.driver.cache import CompileCache, model_key
from afterglow.driver.dims import Dims, Wishes
from afterglow.driver.options import (
    Options,
    Progress,
    cache_folder,
    perf_map_by_default,
    policy_of,
    verify_by_default,
)
from afterglow.driver.sources import Source, open_source
from afterglow.driver.specialise import CallSpecialiser
from afterglow.driver.stages import Stages, find_backend
from afterglow.frontends.onnx import NeedsValuesError, UnboundDimensionsError
from afterglow.graph import Array, Module, print_module
from afterglow.instr import print_program
from afterglow.runtime import CompiledModel, load_model
from afterglow.runtime.segmented import SegmentedVersion
from afterglow.runtime.version import BundleWish, Specialiser, Version
from afterglow.support.errors import UsageError
from afterglow.support.sizes import parse_size

STAGES = ("import", "graph", "lowered", "instructions", "llvm", "asm")
"""The stages that can be printed, in order."""


def compile(
    source: Any,
    *,
    backend: str = "cpu",
    target: str = "host",
    threads: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Dims | None = None,
    values: Mapping[str, Array] | None = None,
    optimize: bool = True,
    lend_inputs: bool = False,
    max_arena: int | str | None = None,
    exact: bool = False,
    optimize_for: str = "speed",
    tune: float | None = None,
    cache: bool | str | Path = True,
    verify: bool | None = None,
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile a model: a path, bytes, an `onnx.ModelProto`, or a `Module` built by hand.

    `target` is the machine to make code for, `threads` how many run it: as many as this process may
    keep busy, if it is not said. `shapes` and `dims` bind free dimensions, by input or by name;
    `values` makes inputs constant. What stays free is bound by the first call, and by each call
    with other shapes; of a dimension `dims` may also have a list of extents to compile ahead, or a
    tuple of the first and the last extent that calls may bring. `lend_inputs` lets a run use the
    memory of its input arrays: what they hold afterwards is undefined. `max_arena` is the most that
    intermediate results may take, in bytes or as text such as "256KiB"; if they take more, nodes
    are computed in parts, and some of it twice.
    `exact` forms every sum as it is defined, without algorithms that save multiplications and round
    more: see docs/accuracy.md. `optimize_for` is "speed", or "memory" if weights must not take more
    than they do in the model. `tune` tries the algorithms that kernels choose between, for so many
    seconds, rather than to go by estimates.
    `cache` is the folder in which compiled code is kept, True for the usual one, False for none.
    `verify` checks the program after each pass, and each instruction as it runs.
    """
    wishes = Wishes.of(dims or {})
    options = Options(
        backend=backend,
        target=target,
        threads=threads,
        shapes=shapes or {},
        dims=wishes.fixed,
        values=values or {},
        optimize=optimize,
        lend_inputs=lend_inputs,
        max_arena=parse_size(max_arena) if isinstance(max_arena, str) else max_arena,
        policy=policy_of(exact, optimize_for),
        tune=tune,
        cache=cache_folder(cache),
        verify=verify_by_default() if verify is None else verify,
        perf_map=perf_map_by_default(),
        progress=progress,
    )
    return compile_with(source, options, wishes)


def compile_with(source: Any, options: Options, wishes: Wishes | None = None) -> CompiledModel:
    """The same with options as one value, and more wishes about what they leave free."""
    find_backend(options)
    wishes = wishes or Wishes()
    recipe = Recipe(open_source(source), options)
    signature = recipe.source.signature(options)
    wishes.check_names(e for i in signature.inputs for e in i.shape or () if isinstance(e, str))
    try:
        version = recipe.build(options)
    except (UnboundDimensionsError, NeedsValuesError):
        model = CompiledModel(signature, recipe, None, wishes.ranges)
        model.keep(list(recipe.build_ahead(wishes)))
        return model
    return CompiledModel(version.signature, recipe, version)


def load(path: str | Path, *, threads: int | None = None) -> CompiledModel:
    """Load a model that was saved, to be run by so many threads: by default as many as may be.

    Code and constants are mapped from the file, and shared by all processes that do the same. The
    shared library of a bundle is loaded too; it runs on the calling thread.
    """
    return load_model(path, threads=threads, perf_map=perf_map_by_default())


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
        cache = None if options.cache is None else CompileCache(options.cache)
        key = None if cache is None else self._key(cache, options)
        found = None if cache is None or key is None else cache.find(key, options)
        if found is not None:
            return found
        if options.progress is not None:
            options.progress("import")
        module, forms = self.source.load(options)
        version = Version(Stages(options).finish(module), forms, frozenset(value_inputs))
        if cache is not None and key is not None:
            cache.keep(key, version)
        return version

    def build_ahead(self, wishes: Wishes) -> Iterator[Version]:
        """Versions for extents that are expected, if nothing else is free."""
        for dims in wishes.bindings():
            try:
                yield self.build(replace(self.options, dims=dims))
            except (UnboundDimensionsError, NeedsValuesError):
                return

    def _key(self, cache: CompileCache, options: Options) -> str | None:
        """What the cache has a model under; None if it can have none."""
        if options.backend != "cpu" or options.verify or options.instruments:
            return None
        digest = self.source.digest(cache)
        return None if digest is None else model_key(digest, options)

    def compile_for(self, feed: Mapping[str, Any]) -> Version | SegmentedVersion:
        """Bind the shapes of the inputs, and go on where values decide more."""
        return CallSpecialiser(self.source, self.options, self.build).compile_for(feed)

    def bundle(self, wish: BundleWish) -> BundleCode:
        """Compile it anew for another target."""
        return compile_bundle(self.source, self.options, wish)

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
        if name == "lowered":
            return print_module(module)
        program = stages.plan(module)[0]
        return print_program(program) if name == "instructions" else stages.listing(program, name)
