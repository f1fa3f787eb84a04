"""A model whose weights are stored as integers beside the same in floats, run on samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from afterglow.driver.compile import Recipe, compile_recipe
from afterglow.driver.dims import DimOptions
from afterglow.driver.options import PRECISIONS, Options
from afterglow.driver.samples import GivenSamples, Sample
from afterglow.driver.sensitivity import OnRun, opened_with_samples
from afterglow.frontends.base import Source
from afterglow.quantization.metrics import Outputs
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass


@dataclass
class Comparison:
    """A model in floats and in a precision that needs no profile, and samples to run both on."""

    source: Source
    options: Options
    """Those of the model in fewer bits."""
    dim_options: DimOptions
    samples: Sequence[Sample]
    on_run: OnRun
    weight_bytes: dict[str, int] = field(default_factory=dict)
    """Bytes of constants of the programs that ran, by precision."""

    @staticmethod
    def of(
        model: Any,
        options: Options,
        dim_options: DimOptions,
        given: GivenSamples,
        on_run: OnRun | None = None,
    ) -> Comparison:
        """Compare a model on samples, which are given with options for images and a limit."""
        if not PRECISIONS[options.precision].has_scales:
            raise UsageError(
                f"precision {options.precision!r} has nothing in few bits to compare with floats",
                help="use precision weights_int8, weights_int4, weights_f8, dynamic_int8 or int8",
            )
        source, samples = opened_with_samples(model, options, given)
        on_run = on_run or (lambda what, done, of: None)
        return Comparison(source, options, dim_options, samples, on_run)

    @cached_property
    def expected(self) -> Outputs:
        """The outputs of the model in floats."""
        return self._run(self.options.in_floats)

    @cached_property
    def found(self) -> Outputs:
        """The outputs of the model in fewer bits."""
        return self._run(self.options)

    def _run(self, options: Options) -> Outputs:
        what = options.precision
        self.on_run("compile", 0, None)
        model = compile_recipe(Recipe(self.source, options), self.dim_options)
        outputs = []
        for place, sample in enumerate(self.samples):
            self.on_run(what, place, len(self.samples))
            outputs.append(model.run(None, sample.feed))
        self.weight_bytes[what] = model.memory.weight_bytes
        return outputs
