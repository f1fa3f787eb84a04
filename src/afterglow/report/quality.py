"""`quantization_quality`, the public entry point: what quantizing a model costs and saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.driver.dims import DimOptions, Dims
from afterglow.driver.environment import cache_folder, max_memory_by_default
from afterglow.driver.images import ImageOptions
from afterglow.driver.options import Options, check_bindings
from afterglow.driver.profiled import title_of
from afterglow.driver.rounding import rounding_by
from afterglow.driver.sensitivity import Measurement, OnRun, Search, search
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.metrics import Metric, find_metric
from afterglow.quantization.profile import Profile
from afterglow.report.quantization import QuantizationReport, report_on

SAMPLES = 100
"""Samples that are taken at most, if no limit is given."""


def quantization_quality(
    model: Any,
    profile: Profile | str | Path,
    samples: Any,
    *,
    quantization: QuantizationConfig | None = None,
    round_weights: Any = None,
    limit: int | None = SAMPLES,
    size: tuple[int, int] | None = None,
    mean: float | Sequence[float] = 0.0,
    std: float | Sequence[float] = 1.0,
    backend: str = "cpu",
    threads: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Dims | None = None,
    cache: bool | str | Path = True,
    on_run: OnRun | None = None,
) -> QuantizationQuality:
    """Compare a model in integers with the model in floats, on samples.

    Args:
        model: what `compile` takes.
        profile: what `profile` observed of it, or the path of its file.
        samples: what `profile` takes, as it takes `size`, `mean` and `std`.
        quantization: how integers are chosen.
        round_weights: samples that weights are rounded by; better not those that are compared.
        limit: how many samples to take at most.
        size: height and width of images, if the model's input has dynamic ones.
        mean: what is subtracted from pixels.
        std: what they are divided by then.
        backend: as for `compile`, as all that follows.
        threads: number of threads; by default all cores that this process may use.
        shapes: shapes of inputs by name, to bind dynamic dimensions.
        dims: extents of dimensions by name.
        cache: folder for compiled code, True for the default one, False for none.
        on_run: called with what is done, how many runs of it are, and of how many or None.
    """
    check_bindings(shapes, dims, backend=backend)
    dim_options = DimOptions.of(dims or {})
    options = Options(
        backend=backend,
        threads=threads,
        shapes=shapes or {},
        dims=dim_options.bound,
        precision="int8",
        profile=profile if isinstance(profile, Profile) else Profile.load(profile),
        quantization=quantization,
        max_memory=max_memory_by_default(),
        cache=cache_folder(cache),
    )
    options = rounding_by(round_weights, model, options, dim_options)
    given = samples, ImageOptions.of(size, mean, std), limit
    return QuantizationQuality(Measurement.of(model, options, dim_options, given, on_run))


@dataclass
class QuantizationQuality:
    """A quantized model beside the same in floats: reports on it, and improves it."""

    measurement: Measurement

    @property
    def profile(self) -> Profile:
        """The profile, with the layers that are kept in floats by now."""
        found = self.measurement.options.profile
        assert found is not None
        return found

    def report(self, labels: Any = None) -> QuantizationReport:
        """What each layer costs and saves; accuracy too, given the class of each sample."""
        known = None if labels is None else np.asarray(labels)
        return report_on(self.measurement, title_of(self.measurement.source), known)

    def keep_within(
        self, tolerance: float, metric: str | Metric = "cosine", most: int | None = None
    ) -> Search:
        """Keep the few layers in floats without which a loss exceeds a tolerance.

        The loss is 1 - cosine similarity ("cosine"), 1 - the share of rows with the same largest
        element ("top1"), the largest error as a part of the largest number ("max_error"), or what
        a function returns for two lists, with the outputs for each sample in floats and in
        integers. At most half of the layers are kept, or `most`. `profile` then has them.
        """
        found = search(self.measurement, find_metric(metric), tolerance, most)
        if found.keep:
            self.measurement = self.measurement.keeping(found.keep)
        return found
