"""The report on a quantized model: what each layer costs and saves, and all of them together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any

import numpy as np

from afterglow.driver.compared import Comparison
from afterglow.driver.sensitivity import LayerCost, Measurement
from afterglow.quantization.calibrate import saturated_share, signal_to_noise
from afterglow.quantization.distribution import Distribution
from afterglow.quantization.metrics import (
    Outputs,
    accuracy,
    cosine,
    decibels,
    divergence,
    max_error,
    perplexity,
    top1,
)
from afterglow.quantization.observation import Observation
from afterglow.report.layer_times import LayerTimes, layer_times
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

BINS = 48
"""Bins of the histograms in a report."""


@dataclass(frozen=True)
class LayerReport:
    """A layer in integers: what it reads, what that costs, what it saves. Ratios are in dB."""

    name: str
    node: str
    op: str
    value: str
    """The value that it reads, which is stored as integers."""
    low: float
    high: float
    histogram: tuple[int, ...]
    """Counts of equal bins from `low` to `high`."""
    scale: float
    zero_point: int
    clipped_low: float
    """The least number that the integers stand for."""
    clipped_high: float
    saturated: float
    """The share of numbers that are clipped."""
    storing_snr: float
    """Signal to noise of what it reads, by the histogram."""
    own_snr: float
    """Signal to noise of its result, if no other layer is in integers."""
    output_snr: float
    """Signal to noise of the model's outputs, if no other layer is in integers."""
    accumulated_snr: float | None
    """Signal to noise of what it reads, with all layers in integers."""
    weight_bytes: int
    stored_bytes: int
    """Bytes of the weight as integers, and of its scales."""
    seconds: float | None
    """Time in floats."""
    stored_seconds: float | None
    """Time in integers."""


@dataclass(frozen=True)
class QuantizationReport:
    """What quantizing a model costs and saves; layers are in order of cost, the largest first."""

    title: str
    samples: int
    layers: tuple[LayerReport, ...]
    kept: tuple[str, ...]
    """Layers that stay in floats, as they were asked for."""
    int16: tuple[str, ...]
    """Layers that read 16 bits, as they were asked for."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Of the outputs: cosine, max_error and top1; with labels also both accuracies.

    Where only weights are integers also divergence, and with labels both perplexities.
    """
    seconds: float | None = None
    stored_seconds: float | None = None
    program_bytes: tuple[int, int] | None = None
    """Bytes of the constants of the program in floats and in integers, if there are no layers."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights of all layers in floats."""
        own = sum(layer.weight_bytes for layer in self.layers)
        return own if self.program_bytes is None else self.program_bytes[0]

    @property
    def stored_bytes(self) -> int:
        """Bytes of the same weights as integers."""
        own = sum(layer.stored_bytes for layer in self.layers)
        return own if self.program_bytes is None else self.program_bytes[1]

    def data(self) -> dict[str, Any]:
        """All of it, as JSON can hold it: ratios without noise are null."""
        return {
            "format": "afterglow quantization report",
            **asdict(replace(self, layers=())),
            "weight_bytes": self.weight_bytes,
            "stored_bytes": self.stored_bytes,
            "layers": [_finite(asdict(layer)) for layer in self.layers],
        }


def _finite(data: dict[str, Any]) -> dict[str, Any]:
    infinite = (key for key, x in data.items() if isinstance(x, float) and not math.isfinite(x))
    return {**data, **dict.fromkeys(infinite)}


def report_on(measurement: Measurement, title: str, labels: Array | None) -> QuantizationReport:
    """Measure a quantized model, layer by layer and as a whole."""
    options = measurement.options
    assert options.profile is not None
    expected, found = measurement.expected, measurement.quantized()
    feed = measurement.samples[0].feed
    measurement.on_run("time", 0, None)
    times = [layer_times(measurement.source, each, feed) for each in (options.in_floats, options)]
    layers = [_layer(measurement, cost, times) for cost in measurement.costs()]
    return QuantizationReport(
        title,
        len(measurement.samples),
        tuple(layers),
        (*measurement.config.keep, *options.profile.keep),
        (*measurement.config.int16, *options.profile.int16),
        _metrics(expected, found, labels),
        *_totals(times),
    )


def report_on_weights(
    comparison: Comparison, title: str, labels: Array | None
) -> QuantizationReport:
    """Compare a model whose weights are stored as integers with that in floats, as a whole."""
    expected, found = comparison.expected, comparison.found
    metrics = {**_metrics(expected, found, labels), "divergence": divergence(expected, found)}
    if labels is not None:
        metrics["perplexity_float"] = perplexity(expected, labels)
        metrics["perplexity_int"] = perplexity(found, labels)
    both = comparison.options.in_floats, comparison.options
    sizes = [comparison.weight_bytes[each.precision] for each in both]
    comparison.on_run("time", 0, None)
    feed = comparison.samples[0].feed
    times = [layer_times(comparison.source, each, feed) for each in both]
    samples = len(comparison.samples)
    return QuantizationReport(
        title, samples, (), (), (), metrics, *_totals(times), program_bytes=(sizes[0], sizes[1])
    )


def _totals(times: Sequence[LayerTimes | None]) -> tuple[float | None, float | None]:
    """Seconds of a run in floats and in integers."""
    floats, integers = (None if each is None else each.total for each in times)
    return floats, integers


def _metrics(expected: Outputs, found: Outputs, labels: Array | None) -> dict[str, float]:
    metrics = {
        "cosine": cosine(expected, found),
        "max_error": max_error(expected, found),
        "top1": top1(expected, found),
    }
    if labels is not None:
        metrics["accuracy_float"] = accuracy(expected, labels)
        metrics["accuracy_int8"] = accuracy(found, labels)
    return metrics


def _layer(
    measurement: Measurement, cost: LayerCost, times: Sequence[LayerTimes | None]
) -> LayerReport:
    seen, layer = measurement.probes.observations, cost.layer
    dtype, parameters = layer.dtype, layer.parameters
    observation = seen.get(layer.point, Observation.of(np.zeros(0, np.float32)))
    (scale,), (zero,) = parameters.scales, parameters.offsets
    clipped = [(limit - zero) * scale for limit in dtype.limits]
    seconds = [None if each is None else each.of(layer) for each in times]
    return LayerReport(
        name=layer.name,
        node=layer.origin,
        op=layer.op,
        value=layer.point,
        low=observation.low,
        high=observation.high,
        histogram=histogram_of(observation),
        scale=scale,
        zero_point=zero,
        clipped_low=clipped[0],
        clipped_high=clipped[1],
        saturated=saturated_share(observation, parameters, dtype),
        storing_snr=signal_to_noise(observation, parameters, dtype),
        own_snr=decibels(cost.alone),
        output_snr=decibels(cost.output),
        accumulated_snr=None if cost.accumulated is None else decibels(cost.accumulated),
        weight_bytes=layer.weight_bytes,
        stored_bytes=layer.stored_bytes,
        seconds=seconds[0],
        stored_seconds=seconds[1],
    )


def histogram_of(observation: Observation) -> tuple[int, ...]:
    """Counts of equal bins over the range that was observed."""
    numbers = Distribution.of(observation)
    edges = np.linspace(observation.low, observation.high, BINS + 1)
    below = np.interp(edges, numbers.edges, numbers.below)
    below[-1] = numbers.total
    return tuple(np.diff(np.rint(below)).astype(int).tolist())
