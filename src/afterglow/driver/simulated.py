"""Compiling a model with probes: in floats with switches for its layers, and in integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from afterglow.driver.compile import Recipe
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.driver.state import import_with_state
from afterglow.frontends.base import Source
from afterglow.graph import Module
from afterglow.passes import Pipeline
from afterglow.quantization.convert import Convert
from afterglow.quantization.observation import Observation
from afterglow.quantization.points import find_points
from afterglow.quantization.simulate import (
    POWERS,
    SWITCHES,
    Layer,
    add_probes,
    add_simulation,
    stored_values,
)
from afterglow.runtime.signature import Signature
from afterglow.runtime.version import Version
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.output_form import tensor_forms


@dataclass
class Probes:
    """What the last run of a model with probes found, and which of its layers are switched on."""

    layers: dict[str, Layer] = field(default_factory=dict)
    """All layers by name, in the order of computation."""
    switched: frozenset[str] = frozenset()
    """The layers that are simulated in the next run."""
    observations: dict[str, Observation] = field(default_factory=dict)
    """What was observed of values, by their names; as integers are chosen for them."""
    estimated: set[str] = field(default_factory=set)
    """Values of which some of that is estimated, because their channels were scaled."""
    values: dict[str, Array] = field(default_factory=dict)
    """Values by the names of outputs."""
    powers: dict[str, Array] = field(default_factory=dict)
    """For each layer the power of its result, and that of its error."""


@dataclass(frozen=True)
class ProbedVersion(Version):
    """A version whose last outputs are probes, which are noted instead of returned."""

    probes: Probes = field(default_factory=Probes)
    names: tuple[str, ...] = ()
    """The names of the probes."""
    layers: tuple[str, ...] = ()
    """The names of the layers that it can switch."""

    @property
    def signature(self) -> Signature:
        """What the model takes and gives: no switches."""
        own = super().signature
        inputs = tuple(info for info in own.inputs if info.name != SWITCHES)
        return Signature(inputs, own.outputs[: len(own.outputs) - len(self.names)])

    @property
    def input_shapes(self) -> list[tuple[int, ...]]:
        """The shape of each input of the model."""
        return super().input_shapes[: -1 if self.layers else None]

    def run(self, arrays: Mapping[str, Any]) -> list[Any]:
        """The outputs of the model; what probes found is noted."""
        switches = np.array([layer in self.probes.switched for layer in self.layers], np.bool_)
        outputs = super().run({**arrays, SWITCHES: switches})
        count = len(outputs) - len(self.names)
        found = dict(zip(self.names, outputs[count:], strict=True))
        powers = found.pop(POWERS, None)
        if powers is not None:
            self.probes.powers.update(zip(self.layers, powers.reshape(2, -1).T, strict=True))
        self.probes.values.update(found)
        return outputs[:count]


class _ProbedRecipe(Recipe):
    """Compiles a source with probes. Nothing of that is cached."""

    def __init__(self, source: Source, options: Options) -> None:
        super().__init__(source, options)
        self.probes = Probes()

    def build(self, options: Options, value_inputs: Iterable[str] = ()) -> Version:
        """All stages for one binding, with probes in between."""
        self.last = options
        module, forms = import_with_state(self.source, options)
        floats = Stages(options.in_floats)
        floats.check_runs_here()
        inputs = [placeholder.name for placeholder in module.main.inputs]
        outputs = [output.name for output in module.main.outputs]
        floats.optimise(module)
        names, layers = self.instrument(module, Stages(options).narrowing)
        switches = [SWITCHES] if layers else []
        compiled = floats.finish_optimised(module, [*inputs, *switches], [*outputs, *names])
        forms = (*forms, *tensor_forms(names))
        return ProbedVersion(
            compiled,
            forms,
            frozenset(value_inputs),
            probes=self.probes,
            names=tuple(names),
            layers=tuple(layers),
        )

    def instrument(self, module: Module, quantizing: Pipeline) -> tuple[list[str], list[str]]:
        """Change an optimised module; the names of its new outputs, and of layers to switch."""
        raise NotImplementedError


class SimulatedRecipe(_ProbedRecipe):
    """A model in floats, whose layers can be switched to what integers would compute."""

    def instrument(self, module: Module, quantizing: Pipeline) -> tuple[list[str], list[str]]:
        """Add the simulation, and probes of the values that would be stored as integers."""
        before, convert, _ = split_at_conversion(quantizing)
        before.run(module)
        convert.prepare(module.main)
        converted = module.clone()
        convert.store(converted.main)
        self.probes.observations.update(convert.observations)
        self.probes.estimated.update(convert.exponents)
        only = convert.config.integer_only
        found = find_points(module.main, integer_only=only).readers
        points = {value.name: value for value in found}
        layers = add_simulation(module.main, converted.main)
        self.probes.layers.update({layer.name: layer for layer in layers})
        powers = [POWERS] if layers else []
        return [*powers, *add_probes(module.main, points)], [layer.name for layer in layers]


class ConvertedRecipe(_ProbedRecipe):
    """A model in integers, with probes of what it stores as such."""

    def instrument(self, module: Module, quantizing: Pipeline) -> tuple[list[str], list[str]]:
        """Convert it, and add the probes."""
        before, convert, after = split_at_conversion(quantizing)
        before.run(module)
        convert.prepare(module.main)
        only = convert.config.integer_only
        points = [value.name for value in find_points(module.main, integer_only=only).readers]
        convert.store(module.main)
        names = add_probes(module.main, stored_values(module.main, points))
        after.run(module)
        return names, []


def split_at_conversion(pipeline: Pipeline) -> tuple[Pipeline, Convert, Pipeline]:
    """The passes of a pipeline before conversion, conversion, and the passes after it."""
    (convert,) = (step for step in pipeline.passes if isinstance(step, Convert))
    place = pipeline.passes.index(convert)
    before, after = pipeline.passes[:place], pipeline.passes[place + 1 :]
    return Pipeline("before conversion", before), convert, Pipeline("after conversion", after)
