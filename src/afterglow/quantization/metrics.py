"""Metrics: how far the outputs of a quantized model are from those of the model in floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from afterglow.support.errors import UsageError
from afterglow.types import Array

LEAST_PROBABILITY = 1e-12
"""Probabilities are taken to be at least that, so that each has a logarithm."""
Outputs: TypeAlias = Sequence[Sequence[Any]]
"""The outputs of a model for each sample."""
Metric: TypeAlias = Callable[[Outputs, Outputs], float]
"""A loss, of what is expected and what was found: 0 if they are the same."""


def cosine(expected: Outputs, found: Outputs) -> float:
    """The cosine similarity of outputs: a mean over samples, of the output that has the least.

    Outputs that are single numbers are one vector, with a number for each sample.
    """
    pairs = [[*_float_pairs(*both)] for both in zip(expected, found, strict=True)]
    return min((_mean_cosine(of_one) for of_one in zip(*pairs, strict=True)), default=1.0)


def max_error(expected: Outputs, found: Outputs) -> float:
    """The largest error of an output, as a part of the largest magnitude that it should have."""
    worst: dict[int, tuple[float, float]] = {}
    for sample, others in zip(expected, found, strict=True):
        for place, (one, other) in enumerate(_float_pairs(sample, others)):
            error, size = worst.get(place, (0.0, 0.0))
            worst[place] = max(error, _distance(one, other)), max(size, _magnitude(one))
    parts = (error / size if size else error for error, size in worst.values())
    return max(parts, default=0.0)


def top1(expected: Outputs, found: Outputs) -> float:
    """The share of rows of the first output whose largest number is at the same place."""
    agreements = [
        _top1(*pair)
        for sample, others in zip(expected, found, strict=True)
        for pair in [*_float_pairs(sample, others)][:1]
    ]
    return float(np.mean(np.concatenate(agreements))) if agreements else 1.0


def accuracy(outputs: Outputs, labels: Array) -> float:
    """The share of rows of the first output whose largest number is at the place of the label."""
    places = [np.asarray(sample[0]).argmax(-1).reshape(-1) for sample in outputs]
    chosen = np.concatenate(places) if places else np.zeros(0, np.int64)
    return float((chosen == _labels_of(labels, len(chosen))).mean())


def divergence(expected: Outputs, found: Outputs) -> float:
    """What the distributions of the first output lose: a mean over its rows, in nats.

    Rows are probabilities, if they are positive and sum to 1, or else logarithms of such.
    """
    losses = [
        _divergence(*pair)
        for sample, others in zip(expected, found, strict=True)
        for pair in [*_float_pairs(sample, others)][:1]
    ]
    return float(np.mean(np.concatenate(losses))) if losses else 0.0


def perplexity(outputs: Outputs, labels: Array) -> float:
    """How many classes the first output leaves open, as a geometric mean over its rows."""
    rows = [_log_probabilities(np.asarray(sample[0], np.float64)) for sample in outputs]
    flat = np.concatenate([row.reshape(-1, row.shape[-1]) for row in rows])
    wanted = _labels_of(labels, len(flat))
    return float(np.exp(-np.take_along_axis(flat, wanted[:, None], 1).mean()))


METRICS: dict[str, Metric] = {
    "cosine": lambda expected, found: 1 - cosine(expected, found),
    "max_error": max_error,
    "top1": lambda expected, found: 1 - top1(expected, found),
    "divergence": divergence,
}
"""Losses by the names of their metrics."""


def find_metric(metric: str | Metric) -> Metric:
    """A metric by its name, or one that the user wrote."""
    if callable(metric):
        return metric
    if metric not in METRICS:
        raise UsageError(
            f"no metric {metric!r}",
            help=f"there are {', '.join(METRICS)}; or give a function of two lists of outputs",
        )
    return METRICS[metric]


def noise_ratio(expected: Sequence[Any], found: Sequence[Any]) -> float:
    """The power of the error of a sample's outputs over their own power, as a mean."""
    ratios = [_noise_ratio(one, other) for one, other in _float_pairs(expected, found)]
    return float(np.mean(ratios)) if ratios else 0.0


def decibels(noise: float) -> float:
    """A ratio of noise to signal as a ratio of signal to noise in dB."""
    return -10 * math.log10(noise) if noise else math.inf


def _float_pairs(expected: Sequence[Any], found: Sequence[Any]) -> Iterator[tuple[Array, Array]]:
    """Outputs that hold floats."""
    for one, other in zip(expected, found, strict=True):
        if isinstance(one, np.ndarray) and one.dtype.kind == "f":
            yield one.astype(np.float64), np.asarray(other).astype(np.float64)


def _mean_cosine(pairs: Sequence[tuple[Array, Array]]) -> float:
    """The similarity of one output, given what is expected and found for each sample."""
    if all(one.size == other.size == 1 for one, other in pairs):
        expected, found = (
            np.concatenate([x.reshape(1) for x in each]) for each in zip(*pairs, strict=True)
        )
        return _cosine(expected, found)
    return float(np.mean([_cosine(*pair) for pair in pairs]))


def _cosine(one: Array, other: Array) -> float:
    if one.shape != other.shape:
        return 0.0
    with np.errstate(invalid="ignore"):
        size = float(np.sqrt((one * one).sum()) * np.sqrt((other * other).sum()))
        product = float((one * other).sum())
    if not size or not math.isfinite(size):
        return float(np.array_equal(one, other, equal_nan=True))
    return product / size


def _distance(one: Array, other: Array) -> float:
    if one.shape != other.shape:
        return math.inf
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(one - other))
    worst = float(distance.max(initial=0.0))
    return worst if math.isfinite(worst) else math.inf


def _magnitude(x: Array) -> float:
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max(initial=0.0))


def _top1(one: Array, other: Array) -> Array:
    """For each row, whether its largest number is at the same place."""
    if not one.ndim or not one.shape[-1]:
        return np.ones(1, np.bool_)
    places = one.argmax(-1).reshape(-1)
    if one.shape != other.shape:
        return np.zeros(len(places), np.bool_)
    return np.asarray(places == other.argmax(-1).reshape(-1))


def _labels_of(labels: Array, rows: int) -> Array:
    """The labels of as many rows."""
    wanted = labels.reshape(-1)
    if len(wanted) < rows:
        raise UsageError(f"there are {len(wanted)} labels for {rows} rows of the output")
    return wanted[:rows]


def _divergence(one: Array, other: Array) -> Array:
    """For each row, the Kullback-Leibler divergence of its distribution."""
    if not one.ndim or not one.shape[-1]:
        return np.zeros(1)
    if one.shape != other.shape:
        return np.full(one.size // one.shape[-1], math.inf)
    logs, others = _log_probabilities(one), _log_probabilities(other)
    losses = (np.exp(logs) * (logs - others)).sum(-1).reshape(-1)
    return np.asarray(np.where(np.isnan(losses), math.inf, np.maximum(losses, 0)))


def _log_probabilities(x: Array) -> Array:
    """The logarithms of the distributions that rows stand for."""
    sums = x.sum(-1, keepdims=True)
    if (x >= 0).all() and np.allclose(sums, 1, atol=1e-3):
        least = LEAST_PROBABILITY
        return np.asarray(np.log(np.maximum(x, least)))
    shifted = x - x.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def _noise_ratio(one: Array, other: Array) -> float:
    """At most 1 where shapes differ; elements that are not finite are left out."""
    if one.shape != other.shape:
        return 1.0
    finite = np.isfinite(one) & np.isfinite(other)
    signal, noise = one[finite], (other - one)[finite]
    power = float((signal * signal).sum())
    return float((noise * noise).sum()) / power if power else 0.0
