"""`quantization_quality`, the public entry point: what quantizing a model costs and saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.driver.api import loaded_profile
from afterglow.driver.compared import Comparison
from afterglow.driver.dims import DimOptions, Dims
from afterglow.driver.environment import cache_folder, max_memory_by_default
from afterglow.driver.images import ImageOptions
from afterglow.driver.options import PRECISIONS, Options, check_bindings
from afterglow.driver.profiled import title_of
from afterglow.driver.rounding import rounding_by
from afterglow.driver.samples import GivenSamples
from afterglow.driver.sensitivity import Measurement, OnRun
from afterglow.driver.tolerance import RETURNS, Search, search
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.metrics import Metric, find_metric
from afterglow.quantization.profile import Profile
from afterglow.report.quantization import QuantizationReport, report_on, report_on_weights
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass

SAMPLES = 100
"""Samples that are taken at most, if no limit is given."""


def quantization_quality(
    model: Any,
    profile: Profile | str | Path | None,
    samples: Any,
    *,
    precision: str = "int8",
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
        profile: what `profile` observed of it, or the path of its file; None for a precision that
            needs none.
        samples: what `profile` takes, as it takes `size`, `mean` and `std`.
        precision: as for `compile`: "int8", or "weights_int8", "weights_int4", "weights_f8"
            or "dynamic_int8".
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
        precision=precision,
        profile=loaded_profile(profile),
        quantization=quantization,
        max_memory=max_memory_by_default(),
        cache=cache_folder(cache),
    )
    options = rounding_by(round_weights, model, options, dim_options)
    given = samples, ImageOptions.of(size, mean, std), limit
    return quality_of(model, options, dim_options, given, on_run)


def quality_of(
    model: Any,
    options: Options,
    dim_options: DimOptions,
    given: GivenSamples,
    on_run: OnRun | None,
) -> QuantizationQuality:
    """Compare a model, compiled with options, with that in floats."""
    by_profile = options.precision not in PRECISIONS or PRECISIONS[options.precision].by_profile
    kind = Measurement if by_profile else Comparison
    return QuantizationQuality(kind.of(model, options, dim_options, given, on_run))


def no_tolerance(precision: str) -> UsageError:
    """The error about layers to be kept in floats, where none are chosen."""
    return UsageError(
        f"with precision {precision!r}, no layers are kept in floats",
        help="use precision 'int8' for a tolerance",
    )


@dataclass
class QuantizationQuality:
    """A quantized model beside the same in floats: reports on it, and improves it."""

    measurement: Measurement | Comparison

    @property
    def profile(self) -> Profile:
        """The profile, with the layers that are kept in floats, or have 16 bits, by now."""
        found = self.measurement.options.profile
        if found is None:
            precision = self.measurement.options.precision
            raise UsageError(f"precision {precision!r} has no profile")
        return found

    def report(self, labels: Any = None) -> QuantizationReport:
        """What each layer costs and saves; accuracy too, given the class of each sample."""
        known = None if labels is None else np.asarray(labels)
        measured, title = self.measurement, title_of(self.measurement.source)
        if isinstance(measured, Comparison):
            return report_on_weights(measured, title, known)
        return report_on(measured, title, known)

    def keep_within(
        self,
        tolerance: float,
        metric: str | Metric = "cosine",
        most: int | None = None,
        precisions: Sequence[str] = RETURNS,
    ) -> Search:
        """Keep the few layers in floats, or with 16 bits, without which a loss is too large.

        The loss is 1 - cosine similarity ("cosine"), 1 - the share of rows with the same largest
        element ("top1"), the largest error as a part of the largest number ("max_error"), the mean
        divergence of distributions ("divergence"), or what a function returns for two lists, with
        the outputs for each sample in floats and in integers. At most half of the layers are kept,
        or `most`. `profile` then has them. `precisions` says what layers may return to, "int16",
        "float" or both; of integers alone, not to floats. It is for precision "int8".
        """
        if isinstance(self.measurement, Comparison):
            raise no_tolerance(self.measurement.options.precision)
        found = search(self.measurement, find_metric(metric), tolerance, most, precisions)
        if found.keep or found.int16:
            self.measurement = self.measurement.keeping(found.keep, found.int16)
        return found
