"""The quantized values of a model, as each machine computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import afterglow as ag
from afterglow.backends.cpu import Target
from afterglow.backends.cpu.bundle.build import BundleOptions, Planned, build_bundle
from afterglow.backends.cpu.bundle.reference import reference_outputs
from afterglow.backends.cpu.llvm.compile import compile_module
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.graph import Module
from afterglow.quantization.config import QuantizationConfig
from afterglow.types import Array
from tests.emulation.program import NAME, EmulatedModel


@dataclass(frozen=True)
class Quantized:
    """A model, how it is quantized, and an input."""

    source: Any
    profile: ag.Profile
    x: Array
    config: QuantizationConfig = QuantizationConfig()  # noqa: RUF009  a frozen value
    bytes_only: bool = False
    """Whether integers of more bits are no outputs, so that they need not be stored."""

    @staticmethod
    def of(source: Any, samples: Sequence[Array], **config: Any) -> Quantized:
        """By a profile of samples, of which the first is the input."""
        profile = ag.profile(source, [(sample,) for sample in samples])
        return Quantized(source, profile, samples[0], QuantizationConfig(**config))

    def bits_of(self, target: str, backend: str = "cpu") -> Mapping[str, Array]:
        """All integers that this machine, or the interpreter on it, computes."""
        stages, module = self.module_for(target, backend)
        compiled = ag.compile(module, backend=backend, target=stages.options.target)
        return _integers(module, compiled.run(None, {compiled.inputs[0].name: self.x}))

    def emulated_bits_of(self, target: str) -> Mapping[str, Array]:
        """All integers that an emulated machine computes."""
        stages, module = self.module_for(target, "cpu")
        inputs = tuple(value.name for value in module.main.inputs)
        outputs = tuple(output.name for output in module.main.outputs)
        program, _ = stages.plan(stages.lower(module.clone()))
        reference = reference_outputs(program, None, compile_module)
        planned = Planned(program, inputs, outputs, NAME, reference)
        bundle = build_bundle(NAME, [planned], Target.of(target), BundleOptions(freestanding=True))
        return _integers(module, EmulatedModel(bundle).run([self.x]))

    def module_for(self, target: str, backend: str) -> tuple[Stages, Module]:
        """The optimised model, with each integer that it computes as an output."""
        options = Options(
            target=target,
            backend=backend,
            precision="int8",
            profile=self.profile,
            quantization=self.config,
        )
        stages = Stages(options)
        module = stages.optimise(open_source(self.source).load(options)[0])
        for node in list(module.main.nodes):
            dtype = node.results[0].type.dtype
            if dtype.is_integer and not (self.bytes_only and dtype.bits > 8):
                module.main.output(f"bits.{node.name}", node.results[0])
        return stages, module


def _integers(module: Module, results: Sequence[Array]) -> dict[str, Array]:
    names = [output.name for output in module.main.outputs]
    return {
        name: array
        for name, array in zip(names, results, strict=True)
        if np.issubdtype(array.dtype, np.integer)
    }
