"""Compiling a model for a bundle: for a target that need not be this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from afterglow.backends.cpu import compile_module
from afterglow.backends.cpu.bundle import BundleCode, Planned, build_bundle
from afterglow.backends.cpu.target import Target
from afterglow.driver.cache import CompileCache
from afterglow.driver.options import Options
from afterglow.driver.sources import OnnxSource, Source
from afterglow.driver.stages import Stages
from afterglow.runtime.bundle import identifier
from afterglow.runtime.version import BundleWish
from afterglow.support.names import NameScope

Shapes = Mapping[str, Sequence[int]]


def compile_bundle(source: Source, options: Options, wish: BundleWish) -> BundleCode:
    """Plan the model for each binding of its shapes, and compile it all into one object."""
    name = _usable(identifier(wish.name or _name_of(source)))
    options = replace(options, backend="cpu", target=wish.target, verify=False, instruments=())
    bound = [replace(options, shapes=shapes, dims={}) for shapes in wish.shapes] or [options]
    programs = [
        _plan(source, each, prefix)
        for each, prefix in zip(bound, _prefixes(name, wish.shapes), strict=True)
    ]
    compiled = compile_module if options.cache is None else CompileCache(options.cache).compile
    if options.progress is not None:
        options.progress("emit")
    wanted = replace(wish.options, policy=options.policy)
    return build_bundle(name, programs, Target.of(wish.target), wanted, compiled)


def _plan(source: Source, options: Options, prefix: str) -> Planned:
    if options.progress is not None:
        options.progress("import")
    module, _ = source.load(options)
    inputs = tuple(placeholder.name for placeholder in module.main.inputs)
    outputs = tuple(output.name for output in module.main.outputs)
    stages = Stages(options)
    program, _ = stages.plan(stages.lower(stages.optimise(module)))
    return Planned(program, inputs, outputs, prefix)


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


def _spell(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"
