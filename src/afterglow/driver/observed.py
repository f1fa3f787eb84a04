"""Compiling a model with observers: versions whose runs tell what values they computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Any, Protocol

from afterglow.driver.compile import Recipe
from afterglow.driver.options import Options
from afterglow.driver.specialise import PartitionedModel
from afterglow.driver.stages import Stages
from afterglow.driver.state import import_with_state
from afterglow.frontends.base import Source
from afterglow.graph import Function, Module
from afterglow.quantization.interface import interface_values
from afterglow.quantization.logarithms import before_logarithms
from afterglow.quantization.observation import Observation
from afterglow.quantization.observe import Recorder, add_observers, merge_observations
from afterglow.quantization.points import find_points, is_anchor
from afterglow.runtime import CompiledModel
from afterglow.runtime.segmented import SegmentedVersion
from afterglow.runtime.version import Version
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.extent import Extents
from afterglow.types.extent.solver import solve
from afterglow.types.output_form import tensor_forms

Shapes = Mapping[str, Sequence[int]]
"""Shapes of arrays by name."""


class OutputRecorder(Protocol):
    """Takes the outputs that were added to those of a model."""

    @property
    def outputs(self) -> int:
        """How many there are."""

    def add(self, outputs: Sequence[Array]) -> None:
        """Take those of one run."""


@dataclass(frozen=True)
class ObservedVersion(Version):
    """A version whose last outputs are recorded instead of returned."""

    recorder: OutputRecorder | None = None

    def run(self, arrays: Mapping[str, Any]) -> list[Any]:
        """The outputs of the model; what else it found is added to the recorder."""
        assert self.recorder is not None
        outputs = super().run(arrays)
        count = len(outputs) - self.recorder.outputs
        self.recorder.add(outputs[count:])
        return outputs[:count]


@dataclass
class Records:
    """What all versions of a model have observed, and what was not."""

    recorders: list[Recorder] = field(default_factory=list)
    left_out: dict[str, None] = field(default_factory=dict)
    """Nodes in the bodies of loops and branches, and before logarithms, which are not observed."""

    def observations(self) -> dict[str, Observation]:
        """What was observed of each value by name."""
        merged: dict[str, Observation] = {}
        for recorder in self.recorders:
            merged = merge_observations(merged, recorder.observations())
        return merged

    def origins(self) -> dict[str, str]:
        """The model's nodes that compute the values, by the names of these."""
        values = (value for recorder in self.recorders for value in recorder.values)
        return {value.name: value.origin for value in values}


class InstrumentedRecipe(Recipe):
    """A source and options: compiles it with more outputs. Nothing of that is cached."""

    def __init__(self, source: Source, options: Options, shapes: Shapes) -> None:
        super().__init__(source, options)
        self.shapes = shapes
        """Shapes that the inputs of a call have: how much is sampled depends on them."""

    def build(self, options: Options, value_inputs: Iterable[str] = ()) -> Version:
        """All stages for one binding, with instruments in between."""
        self.last = options
        if options.progress is not None:
            options.progress("import")
        module, forms = import_with_state(self.source, options)
        stages = Stages(options)
        stages.check_runs_here()
        inputs = [placeholder.name for placeholder in module.main.inputs]
        outputs = [output.name for output in module.main.outputs]
        extents = _extents(module.main, self.shapes)
        stages.optimise(module)
        names, recorder = self.instrument(module, extents)
        compiled = stages.finish_optimised(module, inputs, [*outputs, *names])
        forms = (*forms, *tensor_forms(names))
        return ObservedVersion(compiled, forms, frozenset(value_inputs), recorder=recorder)

    def instrument(self, module: Module, extents: Extents) -> tuple[list[str], OutputRecorder]:
        """Add outputs to an optimised module; their names, and what takes them after a run."""
        raise NotImplementedError


class ObservedRecipe(InstrumentedRecipe):
    """Compiles a model with observers."""

    def __init__(self, source: Source, options: Options, shapes: Shapes) -> None:
        super().__init__(source, options, shapes)
        self.records = Records()

    def instrument(self, module: Module, extents: Extents) -> tuple[list[str], OutputRecorder]:
        """Add observers of the values that would be stored as integers."""
        both = (find_points(module.main, integer_only=only).readers for only in (True, False))
        values = dict.fromkeys(chain(*both))
        if values:  # else it cannot be quantized
            values.update(dict.fromkeys(interface_values(module.main)))
        observers = add_observers(module.main, list(values), extents)
        recorder = Recorder(observers)
        self.records.recorders.append(recorder)
        self.records.left_out.update(dict.fromkeys(_left_out(module)))
        return observers.output_names, recorder


def _extents(function: Function, shapes: Shapes) -> Extents:
    """The extents of dimensions of a function, as far as shapes of its inputs tell them."""
    known: dict[str, int] = {}
    for placeholder in function.inputs:
        expected, given = placeholder.type.shape, shapes.get(placeholder.name, ())
        if len(expected) == len(given):
            for extent, value in zip(expected, given, strict=True):
                solve(extent, value, known)
    return known


def _left_out(module: Module) -> Iterable[str]:
    """Nodes that would be observed, but are in a loop or branch, or what logarithms read."""
    bodies = (function for function in module.functions.values() if function is not module.main)
    exact = before_logarithms(module.main)
    nodes = chain((n for n in module.main.nodes if n in exact), *(body.nodes for body in bodies))
    return (node.origin for node in nodes if is_anchor(node))


def host_nodes(model: CompiledModel) -> list[str]:
    """The nodes that the host ran, by op and name."""
    found = (node for version in model.versions() for node in _host_nodes(version))
    return list(dict.fromkeys(found))


def _host_nodes(version: Version | SegmentedVersion) -> Iterable[str]:
    if not isinstance(version, SegmentedVersion):
        return
    if isinstance(version.continuation, PartitionedModel):
        yield from map(str, version.continuation.boundary.nodes)
    for rest in version.rest.all():
        yield from _host_nodes(rest)
