"""Compiling a model for a bundle: for a target that need not be this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from afterglow.backends.capabilities import BundleEntry, BundleExtent, Bundling, WritableBundle
from afterglow.driver.options import Options
from afterglow.driver.sources import Source, open_source
from afterglow.driver.stages import Stages, find_backend
from afterglow.driver.state import import_with_state
from afterglow.frontends.base import NeedsValuesError
from afterglow.graph import Module
from afterglow.runtime import TensorInfo
from afterglow.runtime.bundle import BundleRequest
from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.support.names import NameScope

Shapes = Mapping[str, Sequence[int]]


def compile_bundle(source: Source, options: Options, request: BundleRequest) -> WritableBundle:
    """Plan the model for each binding of its shapes, and compile it all into one bundle."""
    options = _for_target(options, request)
    backend = _bundling(options)
    bound = [replace(options, shapes=shapes, dims={}) for shapes in request.shapes] or [options]
    entries = [
        _planned(source, each, suffix)
        for each, suffix in zip(bound, _suffixes(request.shapes), strict=True)
    ]
    if options.progress is not None:
        options.progress("emit")
    declared = source.signature(replace(options, shapes={}, dims={})).inputs
    extents = _extents(declared, request.shapes)
    name = request.name or ("model" if source.path is None else source.path.stem)
    attached = replace(request, attachments=source.attachments)
    return backend.bundle(name, entries, extents, attached)


def compile_functions(
    modules: Mapping[str, Module], options: Options, request: BundleRequest
) -> WritableBundle:
    """Compile several modules, by the names of their entries, into one bundle.

    States of one name are the same memory.
    """
    options = _for_target(options, request)
    backend = _bundling(options)
    entries = [_planned(open_source(module), options, name) for name, module in modules.items()]
    return backend.bundle(request.name or "model", entries, [], request)


def _for_target(options: Options, request: BundleRequest) -> Options:
    return replace(options, target=request.target, verify=False, instruments=())


def _bundling(options: Options) -> Bundling:
    """The backend, if it makes bundles."""
    backend = find_backend(options)
    if not isinstance(backend, Bundling):
        raise UsageError(
            f"bundles are machine code, and backend {backend.name!r} generates none",
            help="compile the model with the default backend",
        )
    return backend


def _planned(source: Source, options: Options, suffix: str) -> BundleEntry:
    if options.progress is not None:
        options.progress("import")
    try:
        module, _ = import_with_state(source, options)
    except NeedsValuesError as error:
        raise _data_dependent(error) from None
    inputs = tuple(placeholder.name for placeholder in module.main.inputs)
    outputs = tuple(output.name for output in module.main.outputs)
    stages = Stages(options)
    program, _ = stages.plan(stages.lower(stages.optimise(module)))
    return BundleEntry(
        program, inputs, outputs, suffix, lambda backend: stages.replan(program, backend)
    )


def _data_dependent(error: NeedsValuesError) -> UnsupportedError:
    """What a user is told of a model that is compiled on as it runs."""
    boundary = error.boundary
    if boundary is None or not boundary.host:
        return error
    return UnsupportedError(
        "the model has data-dependent shapes, which a bundle cannot compile at run time",
        excerpt=list(map(str, boundary.nodes)),
        help="save it as FILE.agc, or export a model that ends before these nodes",
    )


def _suffixes(shapes: Sequence[Shapes]) -> list[str]:
    """What tells the entries of a bundle apart: with several, the shapes in which they differ."""
    if len(shapes) <= 1:
        return [""]
    varying = [key for key in shapes[0] if len({tuple(each[key]) for each in shapes}) > 1]
    scope = NameScope()
    return [scope.claim("_".join(_spell(each[key]) for key in varying)) for each in shapes]


def _extents(inputs: Sequence[TensorInfo], shapes: Sequence[Shapes]) -> list[BundleExtent]:
    """The dimensions in which shapes differ; none if even the number of axes does."""
    if any(len({len(each[info.name]) for each in shapes}) > 1 for info in inputs):
        return []
    found: dict[tuple[str, tuple[int, ...]], list[tuple[str, int]]] = {}
    for info in inputs:
        columns = zip(*(each[info.name] for each in shapes), strict=True)
        for axis, values in enumerate(columns):
            declared = None if info.shape is None else info.shape[axis]
            name = declared if isinstance(declared, str) else f"{info.name}_{axis}"
            if len(set(values)) > 1:
                found.setdefault((name, values), []).append((info.name, axis))
    return [BundleExtent(name, tuple(places), values) for (name, values), places in found.items()]


def _spell(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"
