"""Compiling a model for a bundle: for a target that need not be this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from afterglow.backends.cpu.bundle import (
    BundleCode,
    BundleExtent,
    BundleOptions,
    Planned,
    build_bundle,
    reference_outputs,
    reference_target,
    refuse_host_steps,
)
from afterglow.backends.cpu.llvm.compile import Compile
from afterglow.backends.cpu.target import Target
from afterglow.bundles import identifier
from afterglow.driver.kernel_cache import caching_compiler
from afterglow.driver.options import Options
from afterglow.driver.sources import OnnxSource, Source
from afterglow.driver.stages import Stages, find_backend
from afterglow.frontends.onnx import NeedsValuesError
from afterglow.instr import Program
from afterglow.runtime import TensorInfo
from afterglow.runtime.bundle import BundleWish
from afterglow.support.errors import UnsupportedError
from afterglow.support.names import NameScope
from afterglow.types import Array

Shapes = Mapping[str, Sequence[int]]


def compile_bundle(source: Source, options: Options, wish: BundleWish) -> BundleCode:
    """Plan the model for each binding of its shapes, and compile it all into one object."""
    name = _usable(identifier(wish.name or _name_of(source)))
    options = replace(options, backend="cpu", target=wish.target, verify=False, instruments=())
    bound = [replace(options, shapes=shapes, dims={}) for shapes in wish.shapes] or [options]
    compiled = caching_compiler(options.cache)
    programs = [
        _plan(source, each, prefix, compiled)
        for each, prefix in zip(bound, _prefixes(name, wish.shapes), strict=True)
    ]
    if options.progress is not None:
        options.progress("emit")
    wanted = BundleOptions(
        wish.embed_weights, wish.freestanding, wish.small, options.policy.unchecked
    )
    declared = source.signature(replace(options, shapes={}, dims={})).inputs
    extents = _extents(declared, wish.shapes)
    return build_bundle(name, programs, Target.of(wish.target), wanted, extents)


def _plan(source: Source, options: Options, prefix: str, compiled: Compile) -> Planned:
    if options.progress is not None:
        options.progress("import")
    try:
        module, _ = source.load(options)
    except NeedsValuesError as error:
        raise _data_decide(error) from None
    inputs = tuple(placeholder.name for placeholder in module.main.inputs)
    outputs = tuple(output.name for output in module.main.outputs)
    stages = Stages(options)
    program, _ = stages.plan(stages.lower(stages.optimise(module)))
    refuse_host_steps(program)
    expected = _expected(stages, program, compiled)
    return Planned(program, inputs, outputs, prefix, expected)


def _expected(stages: Stages, program: Program, compiled: Compile) -> Sequence[Array]:
    """What the self-check of a planned program expects, computed by code for another target."""
    reference = reference_target()
    target = stages.options.target if reference is None else reference
    options = replace(stages.options, target=target, precision="float32")
    stages.replan(program, find_backend(options))
    expected = reference_outputs(program, reference, compiled)
    stages.replan(program, stages.backend)
    return expected


def _data_decide(error: NeedsValuesError) -> UnsupportedError:
    """What a user is told of a model that is compiled on as it runs."""
    if error.cut is None or not error.cut.host:
        return error
    stops = [stop.node for stop in error.cut.stops]
    return UnsupportedError(
        "data decide shapes in the model, and a bundle cannot compile what comes behind",
        excerpt=[f"{node.op_type} ({node.name or node.output[0]})" for node in stops],
        help="save it as FILE.agc, or export a model that ends before these nodes",
    )


def _name_of(source: Source) -> str:
    """The name of the model's file, if it has one."""
    if isinstance(source, OnnxSource) and isinstance(source.source, (str, Path)):
        return Path(source.source).stem
    return "model"


def _usable(name: str) -> str:
    """The name, unless the files or functions of the pool have it."""
    return f"{name}_model" if name in ("pool", "main", "afterglow") else name


def _prefixes(name: str, shapes: Sequence[Shapes]) -> list[str]:
    """How the symbols of each entry begin: with several, by the shapes in which they differ."""
    if len(shapes) <= 1:
        return [name]
    varying = [key for key in shapes[0] if len({tuple(each[key]) for each in shapes}) > 1]
    scope = NameScope()
    wishes = ("_".join([name, *(_spell(each[key]) for key in varying)]) for each in shapes)
    return [scope.claim(wish) for wish in wishes]


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
    scope = NameScope()
    return [
        BundleExtent(scope.claim(identifier(name)), tuple(places), values)
        for (name, values), places in found.items()
    ]


def _spell(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"
