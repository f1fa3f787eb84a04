"""Running a model on samples to find what its layers read, which their weights are rounded by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from afterglow.driver.compile import compile_recipe
from afterglow.driver.images import ImageOptions
from afterglow.driver.observed import InstrumentedRecipe, OutputRecorder
from afterglow.driver.options import PRECISIONS, Options, Precision
from afterglow.driver.profiling import SampleRuns
from afterglow.driver.rounding import RoundingSamples
from afterglow.driver.sources import Source, open_source
from afterglow.graph import Module, Node
from afterglow.ops.linear import MatMul
from afterglow.quantization.moments import InputMoments
from afterglow.quantization.rounding import Rounding
from afterglow.quantization.sample_inputs import LayerInputs, add_input_outputs
from afterglow.quantization.weight_only import LEAST_SIZE
from afterglow.types.extent import Extents


def sampled_rounding(samples: RoundingSamples) -> Rounding:
    """Rounding by what the layers of a model read on samples."""

    def collect() -> Mapping[str, InputMoments]:
        progress = samples.options.progress
        if progress is not None:
            progress("sample layers")
        found = _inputs_of_layers(samples)
        if progress is not None:
            progress("round weights")
        return found

    return Rounding(collect)


def _inputs_of_layers(samples: RoundingSamples) -> Mapping[str, InputMoments]:
    """Run a model in floats, here, on all samples; what its layers read, by name."""
    options = replace(
        samples.options.in_floats,
        target="host",
        max_arena=None,
        donate_inputs=False,
        tune=None,
        instruments=(),
        progress=None,
    )
    source = open_source(samples.model)
    runs = SampleRuns.of(source, options, (samples.given, ImageOptions(), None))
    precision = PRECISIONS[samples.options.precision]
    recipe = _SampledRecipe(source, options, runs.shapes, _is_rounded(precision))
    runs.run(compile_recipe(recipe, samples.dim_options), samples.on_sample)
    return recipe.inputs.moments


def _is_rounded(precision: Precision) -> Callable[[Node], bool]:
    """Whether the weight of a layer is rounded."""

    def holds(node: Node) -> bool:
        weight = node.operands[1]
        assert weight is not None
        return precision.by_profile or (
            isinstance(node.op, MatMul) and weight.type.size >= LEAST_SIZE
        )

    return holds


class _SampledRecipe(InstrumentedRecipe):
    """Compiles a model that also returns what its layers read."""

    def __init__(
        self,
        source: Source,
        options: Options,
        shapes: Mapping[str, tuple[int, ...]],
        chosen: Callable[[Node], bool],
    ) -> None:
        super().__init__(source, options, shapes)
        self.chosen = chosen
        self.inputs = LayerInputs()

    def instrument(self, module: Module, extents: Extents) -> tuple[list[str], OutputRecorder]:
        """Add outputs that return what layers read."""
        sampler = add_input_outputs(module.main, self.inputs, self.chosen)
        return sampler.output_names, sampler
