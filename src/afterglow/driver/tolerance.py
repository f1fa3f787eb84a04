"""Which layers of a quantized model return to floats, or to 16 bits, for a loss to be small."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from afterglow.driver.sensitivity import Measurement
from afterglow.quantization.metrics import Metric
from afterglow.quantization.simulate import Layer
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import i16

MOST_COMPILATIONS = 8
"""Programs that a search compiles at most for one ranking of the layers."""
FLOAT, INT16 = "float", "int16"
RETURNS = (INT16, FLOAT)
"""What layers may return to."""


@dataclass(frozen=True)
class Search:
    """What a search for layers that integers of 8 bits do not suffice for found."""

    keep: tuple[str, ...]
    """Names of the layers in floats, the most costly first."""
    loss: float
    """The loss with these in floats, and the others that follow with 16 bits."""
    loss_before: float
    """The loss with all layers in integers of 8 bits."""
    layers: int
    """How many layers could be in integers."""
    int16: tuple[str, ...] = ()
    """Names of the layers that read 16 bits."""


def search(
    measurement: Measurement,
    metric: Metric,
    tolerance: float,
    most: int | None = None,
    precisions: Sequence[str] = RETURNS,
) -> Search:
    """The few layers that must not be of 8 bits for the loss of a metric to be within a tolerance.

    Layers are ranked by the noise that each alone makes in the outputs; if that does not do, by
    the loss without each of them. How many of them are needed is found on the simulation, then
    checked by programs that are compiled with as many in floats; as many of these as 16 bits
    suffice for have 16 bits instead. At most half of the layers are chosen, or `most`.
    """
    if not tolerance >= 0:
        raise UsageError(f"the tolerance must be at least 0, got {tolerance}")
    allowed = _allowed(measurement, precisions)
    expected = measurement.expected
    before = float(metric(expected, measurement.quantized()))
    count = len(measurement.layers)
    if before <= tolerance:
        return Search((), before, before, count)
    most = -(-count // 2) if most is None else min(most, count)
    searcher = _Searcher(measurement, metric, tolerance, most, floats=FLOAT in allowed)
    best: tuple[float, list[str]] = before, []
    for ranked in searcher.rankings():
        loss, names = found = searcher.try_ranking(ranked)
        if loss <= tolerance:
            loss, count_of_floats = searcher.split(names, loss, allowed)
            floats, others = names[:count_of_floats], names[count_of_floats:]
            return Search(tuple(floats), loss, before, count, tuple(others))
        best = min(best, found, key=lambda each: each[0])
    place = "in floats" if searcher.floats else "with 16 bits"
    raise UsageError(
        f"the tolerance {tolerance:g} cannot be met with {most} of {count} layers {place}",
        excerpt=[f"{before:.3g} with none, {best[0]:.3g} with {', '.join(best[1])}"],
        help="allow more, or try activations of 16 bits, or another method of calibration",
    )


def _allowed(measurement: Measurement, precisions: Sequence[str]) -> list[str]:
    """What layers may return to, of what was asked for and makes a difference."""
    unknown = [name for name in precisions if name not in RETURNS]
    if unknown:
        raise UsageError(f"no precision {unknown[0]!r}", help=f"there are {', '.join(RETURNS)}")
    config = measurement.config
    useless = (FLOAT if config.integer_only else None, INT16 if config.dtype is i16 else None)
    allowed = [name for name in precisions if name not in useless]
    if not allowed:
        raise UsageError(
            "there is nothing that layers may return to",
            help="allow int16 and float; integers alone allow no float",
        )
    return allowed


@dataclass(frozen=True)
class _Searcher:
    """Finds how many layers of a ranking are to be in floats, or to have 16 bits."""

    measurement: Measurement
    metric: Metric
    tolerance: float
    most: int
    floats: bool
    """Whether layers return to floats."""

    def rankings(self) -> Iterator[list[str]]:
        """The names of layers, those whose return should help most first."""
        layers = self.measurement.layers
        noise = self.measurement.noise
        yield sorted(layers, key=lambda name: -noise[name][1])
        without = {name: self._simulated_loss({*layers} - {name}) for name in layers}
        yield sorted(layers, key=lambda name: without[name])

    def try_ranking(self, ranked: list[str]) -> tuple[float, list[str]]:
        """The least loss that programs have with the first of some layers returned, and which."""
        names = _names([self.measurement.layers[name] for name in ranked])
        kept = self._least(ranked)
        best: tuple[float, list[str]] = math.inf, []
        for compiled in range(MOST_COMPILATIONS):
            loss = self._loss(names[:kept], kept if self.floats else 0)
            best = min(best, (loss, names[:kept]), key=lambda each: each[0])
            if loss <= self.tolerance or kept == self.most:
                break
            kept = min(self.most, kept + (1 << compiled))
        return best

    def split(self, names: list[str], loss: float, allowed: list[str]) -> tuple[float, int]:
        """The loss, and how many are in floats, the first: as few as 16 bits suffice without."""
        if len(allowed) == 1:
            return loss, len(names) if self.floats else 0
        low, high = 0, len(names)
        while low < high:
            middle = (low + high) // 2
            found = self._loss(names, middle)
            if found <= self.tolerance:
                high, loss = middle, found
            else:
                low = middle + 1
        return loss, high

    def _loss(self, names: list[str], floats: int) -> float:
        """The loss of a program with some layers in floats, the first, and others with 16 bits."""
        outputs = self.measurement.quantized(names[:floats], names[floats:])
        return float(self.metric(self.measurement.expected, outputs))

    def _simulated_loss(self, layers: Iterable[str]) -> float:
        expected = self.measurement.expected
        return float(self.metric(expected, self.measurement.simulated(layers)))

    def _least(self, ranked: list[str]) -> int:
        """How many must be in floats for the simulation to be within the tolerance."""
        low, high = 1, self.most
        while low < high:
            middle = (low + high) // 2
            if self._simulated_loss(ranked[middle:]) <= self.tolerance:
                high = middle
            else:
                low = middle + 1
        return low


def _names(layers: Sequence[Layer]) -> list[str]:
    """What layers are called: by the model's node, if it has no other layer."""
    counts = Counter(layer.origin for layer in layers)
    return [x.origin if x.origin and counts[x.origin] == 1 else x.name for x in layers]
