"""Metrics: what is measured of outputs besides the loss, summed over batches of any sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

MetricLike: TypeAlias = "str | Metric | Callable[[Any, Any], float]"
"""The name of a metric, a metric, or a function of outputs and targets."""

Terms: TypeAlias = Callable[[Any, Any], tuple[float, float]]
"""Of the outputs and targets of a batch: a sum, and the number of its terms."""

_TOP = re.compile(r"top_?([1-9]\d*)")
_LESS_IS_BETTER = ("loss", "error", "mse", "mae", "rmse", "perplexity")


@dataclass(frozen=True)
class Metric:
    """A number that is the mean of terms, or a function of that mean."""

    name: str
    terms: Terms
    finish: Callable[[float], float] = float

    @staticmethod
    def of(given: MetricLike) -> Metric:
        """The metric of a name, or of a function, whose results are averaged over samples."""
        if isinstance(given, Metric):
            return given
        if isinstance(given, str):
            return _named(given)
        if callable(given):
            name = getattr(given, "__name__", type(given).__name__)
            return Metric(name, _weighted(given, name))
        raise UsageError(
            f"a metric is a name or a function of outputs and targets, got {given!r}",
            help=_known(),
        )


def metrics_of(given: MetricLike | Sequence[MetricLike]) -> tuple[Metric, ...]:
    """Metrics, each of a name of its own."""
    several = isinstance(given, Sequence) and not isinstance(given, str)
    metrics = tuple(map(Metric.of, given if several else [given]))  # type: ignore[arg-type]
    names = [metric.name for metric in metrics]
    for name in names:
        if names.count(name) > 1 or name == "loss":
            raise UsageError(
                f"a metric cannot be called {name!r}: something else is called so",
                help="give a function of another name, or a Metric",
            )
    return metrics


def less_is_better(name: str) -> bool:
    """Whether a number of this name is the better the smaller it is: losses and errors."""
    return name.removeprefix("val_") in _LESS_IS_BETTER or name.endswith(("loss", "error"))


@dataclass
class Means:
    """The loss and the metrics of the batches so far."""

    metrics: Sequence[Metric]
    sums: dict[str, list[float]] = field(default_factory=dict)
    """The sum and the number of terms of each."""

    def add(self, loss: float, rows: int, outputs: Any, targets: Any) -> None:
        """Add a batch, by its mean loss and its outputs."""
        self._add("loss", loss * rows, rows)
        for metric in self.metrics:
            self._add(metric.name, *metric.terms(outputs, targets))

    def _add(self, name: str, total: float, count: float) -> None:
        sums = self.sums.setdefault(name, [0.0, 0.0])
        sums[0] += total
        sums[1] += count

    @property
    def samples(self) -> int:
        """How many samples were added."""
        return int(self.sums.get("loss", (0.0, 0.0))[1])

    @property
    def loss(self) -> float:
        """The mean over samples."""
        return _mean(*self.sums.get("loss", (0.0, 0.0)))

    @property
    def values(self) -> dict[str, float]:
        """Each metric by name."""
        means = {m: _mean(*self.sums.get(m.name, (0.0, 0.0))) for m in self.metrics}
        return {metric.name: metric.finish(mean) for metric, mean in means.items()}


def _mean(total: float, count: float) -> float:
    return total / count if count else math.nan


def _named(name: str) -> Metric:
    top = _TOP.fullmatch(name)
    if top:
        return Metric(name, lambda y, t: _top(y, t, int(top[1]), name))
    if name not in _METRICS:
        raise UsageError(f"there is no metric {name!r}", help=_known())
    return Metric(name, *_METRICS[name])


def _known() -> str:
    return f"the names are {', '.join(_METRICS)} and topK, such as top5"


def _weighted(function: Callable[[Any, Any], float], name: str) -> Terms:
    """A function of a batch, which counts as often as the batch has samples."""

    def terms(outputs: Any, targets: Any) -> tuple[float, float]:
        rows = len(_first(targets))
        found = function(outputs, targets)
        try:
            return float(found) * rows, rows
        except (TypeError, ValueError):
            raise UsageError(
                f"metric {name!r} must return a number, got {found!r}",
                help="return the mean over the samples of the batch",
            ) from None

    return terms


def _first(arrays: Any) -> Array:
    """An array, or the first of several."""
    if isinstance(arrays, Mapping):
        arrays = [*arrays.values()]
    found: Array = arrays[0] if isinstance(arrays, Sequence) else np.asarray(arrays)
    return found


def _scores(outputs: Any, targets: Any, name: str) -> tuple[Array, Array]:
    """Scores with classes along the last axis, a row for each label; labels below 0 are left."""
    scores, labels = _first(outputs), _first(targets)
    if scores.shape == labels.shape and labels.dtype.kind == "f":
        labels = labels.argmax(-1)  # shares of classes, or one of them marked
    if scores.ndim == labels.ndim + 1:
        for moved in (scores, np.moveaxis(scores, min(1, scores.ndim - 1), -1)):
            if moved.shape[:-1] == labels.shape:
                kept = labels.reshape(-1) >= 0
                return moved.reshape(-1, moved.shape[-1])[kept], labels.reshape(-1)[kept]
    raise UsageError(
        f"{name} needs a score for each class and the number of the right one, "
        f"got outputs {scores.shape} and targets {labels.shape}",
        help="labels have the shape of the outputs without the axis of classes",
    )


def _top(outputs: Any, targets: Any, most: int, name: str) -> tuple[float, float]:
    """How many labels are among the best classes: those that fewer than `most` beat."""
    scores, labels = _scores(outputs, targets, name)
    own = scores[np.arange(len(labels)), labels.astype(np.int64)]
    better = (scores > own[:, None]).sum(-1)
    return float((better < most).sum()), len(labels)


def _accuracy(outputs: Any, targets: Any) -> tuple[float, float]:
    scores, labels = _scores(outputs, targets, "accuracy")
    return float((scores.argmax(-1) == labels).sum()), len(labels)


def _binary_accuracy(outputs: Any, targets: Any) -> tuple[float, float]:
    """Of logits, which are above 0 for what is likely."""
    logits, truth = _alike(outputs, targets, "binary_accuracy")
    return float(((logits > 0) == (truth > 0.5)).sum()), truth.size


def _negative_log_likelihood(outputs: Any, targets: Any) -> tuple[float, float]:
    scores, labels = _scores(outputs, targets, "perplexity")
    wide = scores.astype(np.float64)
    wide -= wide.max(-1, keepdims=True, initial=-np.inf)
    own = wide[np.arange(len(labels)), labels.astype(np.int64)]
    return float((np.log(np.exp(wide).sum(-1)) - own).sum()), len(labels)


def _squares(outputs: Any, targets: Any) -> tuple[float, float]:
    found, wanted = _alike(outputs, targets, "mse")
    return float(np.square(found.astype(np.float64) - wanted).sum()), wanted.size


def _distances(outputs: Any, targets: Any) -> tuple[float, float]:
    found, wanted = _alike(outputs, targets, "mae")
    return float(np.abs(found.astype(np.float64) - wanted).sum()), wanted.size


def _alike(outputs: Any, targets: Any, name: str) -> tuple[Array, Array]:
    found, wanted = _first(outputs), _first(targets)
    if found.shape != wanted.shape:
        raise UsageError(
            f"{name} needs targets of the shape of the outputs, "
            f"got outputs {found.shape} and targets {wanted.shape}"
        )
    return found, wanted


_METRICS: dict[str, tuple[Terms, Callable[[float], float]]] = {
    "accuracy": (_accuracy, float),
    "binary_accuracy": (_binary_accuracy, float),
    "perplexity": (_negative_log_likelihood, lambda mean: math.exp(min(mean, 700.0))),
    "mse": (_squares, float),
    "rmse": (_squares, math.sqrt),
    "mae": (_distances, float),
}
"""The terms of each metric, and what becomes of their mean."""
