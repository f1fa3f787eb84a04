"""What each layer of a quantized model costs, measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from afterglow.driver.compile import Recipe, compile_recipe
from afterglow.driver.dims import DimOptions
from afterglow.driver.options import Options
from afterglow.driver.profiled import open_profiled
from afterglow.driver.samples import GivenSamples, Sample, Samples, no_samples
from afterglow.driver.simulated import ConvertedRecipe, Probes, SimulatedRecipe
from afterglow.driver.stages import find_backend
from afterglow.frontends.base import Source
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.metrics import Outputs, noise_ratio
from afterglow.quantization.observation import Observation
from afterglow.quantization.simulate import Layer
from afterglow.runtime import CompiledModel
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

MEASURED = 8
"""Samples on which each layer is measured."""

OnRun = Callable[[str, int, int | None], None]
"""Called with what is done, and how many runs of how many are."""


@dataclass(frozen=True)
class LayerCost:
    """What a layer costs in integers, as ratios of noise to signal."""

    layer: Layer
    alone: float
    """Of its result, if what it reads is exact."""
    output: float
    """Of the model's outputs, if no other layer is in integers."""
    accumulated: float | None = None
    """Of what it reads in the model of integers; None if that was not measured."""


def opened_with_samples(
    model: Any, options: Options, given: GivenSamples
) -> tuple[Source, list[Sample]]:
    """A model that can be compiled so, and the samples that are given for it."""
    find_backend(options)
    source = open_profiled(model, options)
    inputs = source.signature(options).inputs
    samples = [*Samples.of(given[0], inputs, *given[1:])]
    if not samples:
        raise no_samples()
    return source, samples


@dataclass
class Measurement:
    """A model in floats whose layers can be simulated in integers, and samples to run it on.

    Options are those of the quantized model.
    """

    source: Source
    options: Options
    dim_options: DimOptions
    samples: Sequence[Sample]
    on_run: OnRun = lambda what, done, of: None
    probes: Probes = field(init=False)
    model: CompiledModel = field(init=False)

    @staticmethod
    def of(
        model: Any,
        options: Options,
        dim_options: DimOptions,
        given: GivenSamples,
        on_run: OnRun | None = None,
    ) -> Measurement:
        """Measure a model on samples, which are given with options for images and a limit."""
        source, samples = opened_with_samples(model, options, given)
        on_run = on_run or (lambda what, done, of: None)
        return Measurement(source, options, dim_options, samples, on_run)

    def __post_init__(self) -> None:
        self.on_run("compile", 0, None)
        recipe = SimulatedRecipe(self.source, self.options)
        self.probes = recipe.probes
        self.model = compile_recipe(recipe, self.dim_options)

    def keeping(self, names: Sequence[str], int16: Sequence[str] = ()) -> Measurement:
        """The same with more layers in floats, and with 16 bits, than its profile has."""
        profile = self.options.profile
        assert profile is not None
        kept = replace(profile, keep=(*profile.keep, *names), int16=(*profile.int16, *int16))
        other = copy(self)
        other.options = replace(self.options, profile=kept)
        if int16:
            other.__post_init__()  # scales are others
            other.__dict__.pop("noise", None)
        return other

    @property
    def layers(self) -> dict[str, Layer]:
        """The layers that are in integers, by name."""
        profile = self.options.profile
        kept = () if profile is None else profile.keep
        found = self.probes.layers.items()
        return {name: x for name, x in found if not {x.origin, name} & {*kept}}

    @property
    def config(self) -> QuantizationConfig:
        """How integers are chosen."""
        return self.options.quantization or QuantizationConfig()

    @cached_property
    def expected(self) -> Outputs:
        """The outputs of the model in floats."""
        return self.simulated((), "floats")

    def simulated(self, layers: Iterable[str], what: str = "simulate") -> Outputs:
        """The outputs on all samples if some layers are in integers."""
        self.probes.switched = frozenset(layers)
        return self._run(self.model, what)

    def quantized(self, keep: Sequence[str] = (), int16: Sequence[str] = ()) -> Outputs:
        """The outputs of the quantized model, with more layers in floats, and with 16 bits."""
        config = self.config.keeping(keep, int16)
        recipe = Recipe(self.source, replace(self.options, quantization=config))
        return self._run(compile_recipe(recipe, self.dim_options), "integers")

    def _run(self, model: CompiledModel, what: str) -> Outputs:
        return [
            self._outputs(model, sample, what, place) for place, sample in enumerate(self.samples)
        ]

    def _outputs(self, model: CompiledModel, sample: Sample, what: str, place: int) -> list[Any]:
        self.on_run(what, place, len(self.samples))
        return model.run(None, sample.feed)

    @cached_property
    def noise(self) -> dict[str, tuple[float, float]]:
        """For each layer its noise alone: that of its own result, and that of the outputs."""
        some = self.samples[:MEASURED]
        expected, names = self.expected, [*self.layers]
        found: dict[str, tuple[float, float]] = {}
        for place, name in enumerate(names):
            self.on_run("layers", place, len(names))
            self.probes.switched = frozenset([name])
            own, outputs = np.zeros(2), []
            for sample, wanted in zip(some, expected, strict=False):
                outputs.append(noise_ratio(wanted, self.model.run(None, sample.feed)))
                own += self.probes.powers.get(name, 0.0)
            found[name] = (float(own[1] / own[0]) if own[0] else 0.0, float(np.mean(outputs)))
        return found

    def costs(self) -> list[LayerCost]:
        """What each layer costs; the most costly first."""
        noise, accumulated = self.noise, self._accumulated()
        layers = self.layers.items()
        found = [LayerCost(x, *noise[name], accumulated.get(x.point)) for name, x in layers]
        return sorted(found, key=lambda cost: -cost.output)

    def _accumulated(self) -> dict[str, float]:
        """The noise of each value that the quantized model stores as integers, by name."""
        recipe = ConvertedRecipe(self.source, self.options)
        quantized = compile_recipe(recipe, self.dim_options)
        self.probes.switched = frozenset()
        powers: dict[str, Array] = {}
        some = self.samples[:MEASURED]
        for place, sample in enumerate(some):
            self.on_run("values", place, len(some))
            self.model.run(None, sample.feed)
            quantized.run(None, sample.feed)
            for name, exact in self.probes.values.items():
                self._observe(name.removeprefix("\0value "), exact)
                stored = recipe.probes.values.get(name)
                if stored is not None and stored.shape == exact.shape:
                    powers[name] = powers.get(name, np.zeros(2)) + _powers(exact, stored)
        return {
            name.removeprefix("\0value "): float(noise / signal) if signal else 0.0
            for name, (signal, noise) in powers.items()
        }

    def _observe(self, name: str, exact: Array) -> None:
        """Note the histogram of a value of which there is an estimate."""
        probes = self.probes
        if name in probes.estimated and name in probes.observations and exact.size:
            seen = probes.observations[name]
            wider = np.append(exact.reshape(-1), np.array([seen.low, seen.high], exact.dtype))
            probes.observations[name] = Observation.of(wider)
            probes.estimated.remove(name)


def _powers(exact: Array, stored: Array) -> Array:
    wide = exact.astype(np.float64)
    error = stored - wide
    return np.array([(wide * wide).sum(), (error * error).sum()])
