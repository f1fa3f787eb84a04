"""Observers: outputs that tell what values a function computes, and the sums of many runs.

Every observed value has a histogram, and the ranges of its channels. What all values have of one
kind is one output, so that a run has few of them. No state is in the graph: a
`Recorder` merges what the runs return.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from afterglow.graph import Builder, Function, Value
from afterglow.ops.histogram import ChannelRanges as ChannelRangesOp
from afterglow.ops.histogram import Histogram, Reach
from afterglow.ops.movement import Concat, Reshape
from afterglow.quantization.observation import (
    AVERAGE_WEIGHT,
    BINS,
    LARGEST_REACH,
    LEAST_REACH,
    ChannelRanges,
    Observation,
    fold,
    reach_of,
)
from afterglow.support.errors import AfterglowError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types.extent import Extents, dims_of, is_ranged, largest

SAMPLED = 1 << 14
"""Elements of a value that a run counts in its histogram, about."""
OUTPUTS = ("counts", "low", "high", "mean")
"""The outputs of observers: histograms, and the ranges and means of channels."""


class ObservationError(AfterglowError):
    """A value cannot be observed: a run computed NaN or an infinity for it."""


@dataclass(frozen=True)
class ObservedValue:
    """A value that is observed: its name, the model's node that computes it, its channels."""

    name: str
    origin: str
    channels: int
    """The number of channels; 0 if it has none, or not always as many."""

    @property
    def ranges(self) -> int:
        """How many ranges are observed: one for all if there are no channels."""
        return max(1, self.channels)


@dataclass(frozen=True)
class Observers:
    """The values that a function observes, in the order of its outputs."""

    values: tuple[ObservedValue, ...]

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs that observe; none if there is nothing to observe."""
        return [f"\0observed {name}" for name in OUTPUTS if self.values]


def add_observers(
    function: Function, values: Sequence[Value], extents: Extents | None = None
) -> Observers:
    """Add outputs that observe values of a function, after its own outputs.

    Values that a predicate may leave undefined are left out. Where dimensions are ranged,
    `extents` are those of a typical run.
    """
    typical = extents or {}
    found = [value for value in values if _is_observable(value)]
    outputs = [_observe(function, value, typical) for value in found]
    observers = Observers(tuple(map(_described, found)))
    b = Builder(function, origins=("observers",))
    for name, parts in zip(observers.output_names, zip(*outputs, strict=True), strict=True):
        function.output(name, b.emit(Concat(0), *parts) if len(parts) > 1 else parts[0])
    return observers


def _is_observable(value: Value) -> bool:
    is_defined = value.producer is None or value.producer.predicate is None
    return is_defined and largest(value.type.size) > 0


def _observe(function: Function, value: Value, typical: Extents) -> tuple[Value, ...]:
    """Emit the nodes that observe a value; their results are in the order of `OUTPUTS`."""
    b = Builder(function, name="observed", origins=(f"observer of {value.name}",))
    rows = value if _channels(value) else b.emit(Reshape((value.type.size, 1)), value)
    low, high, mean = b.emit_all(ChannelRangesOp(), rows)
    reach = b.emit(Reach(LEAST_REACH, LARGEST_REACH), low, high)
    step = sampling_step(_bound(value.type, typical))
    return b.emit(Histogram(BINS, step), value, reach), low, high, mean


def _described(value: Value) -> ObservedValue:
    origin = "" if value.producer is None else value.producer.origin
    return ObservedValue(value.name, origin, _channels(value))


def _channels(value: Value) -> int:
    """The number of channels of a value; 0 if it has none, or not always as many."""
    shape = value.type.shape
    return 0 if len(shape) < 2 or is_ranged(shape[-1]) else shape[-1]


def _bound(type: TensorType, extents: Extents) -> TensorType:
    """A type with these extents; where one is missing, with the largest ones."""
    is_known = all(dim.name in extents for dim in dims_of(*type.shape))
    return type.bind(extents) if is_known else type


def sampling_step(type: TensorType) -> int:
    """Of how many rows of a value one is counted: so that about `SAMPLED` elements are.

    It has no factor in common with the axes within, so that rows are of all places in turn.
    """
    step = -(-largest(type.size) // SAMPLED)
    if step <= 1 or type.rank < 2:
        return 1
    within = math.prod(largest(extent) for extent in type.shape[1:-1])
    while math.gcd(step, within) > 1:
        step += 1
    return step


class Recorder:
    """Merges what the runs of one observed function return."""

    def __init__(self, observers: Observers) -> None:
        self.values = observers.values
        self.outputs = len(observers.output_names)
        """How many outputs of a run are what observers found."""
        count, sizes = len(self.values), [value.ranges for value in self.values]
        self._starts = [0, *accumulate(sizes)]
        self._owners = np.repeat(np.arange(count), sizes)
        self.runs = np.zeros(count, np.int64)
        self.total = np.zeros(count, np.int64)
        self.average_low, self.average_high = np.zeros(count), np.zeros(count)
        self.reach = np.full(count, LEAST_REACH)
        self.counts = np.zeros((count, BINS), np.int64)
        self.low = np.full(sum(sizes), np.inf, np.float32)
        self.high = np.full(sum(sizes), -np.inf, np.float32)
        self.mean = np.zeros(sum(sizes))

    def add(self, outputs: Sequence[Array]) -> None:
        """Add what one run returned; raises if a value is NaN or infinite."""
        if not self.values:
            return
        counts, low, high, mean = outputs
        counts = counts.reshape(-1, BINS)
        sizes = counts.sum(1, dtype=np.int32)
        there = sizes > 0
        least = np.where(there, np.minimum.reduceat(low, self._starts[:-1]), 0)
        most = np.where(there, np.maximum.reduceat(high, self._starts[:-1]), 0)
        self._check(least, most)
        self.total += sizes
        self._add_averages(least, most, there)
        self._add_counts(counts, np.where(there, _reaches(least, most), self.reach))
        self._add_ranges(low, high, mean, sizes / np.maximum(1, self.total))
        self.runs += there

    def _check(self, low: Array, high: Array) -> None:
        strange = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
        if not strange.size:
            return
        value = self.values[strange[0]]
        ends = [float(low[strange[0]]), float(high[strange[0]])]
        what = "NaN" if any(map(math.isnan, ends)) else "infinite"
        raise ObservationError(
            f"value %{value.name} is {what}, so it has no range to quantize",
            where=f"in node {value.origin!r}" if value.origin else "an input of the model",
            help="quantize a model that computes finite numbers, and give samples like its inputs",
        )

    def _add_averages(self, low: Array, high: Array, there: Array) -> None:
        weight = np.where(there, np.where(self.runs == 0, 1.0, AVERAGE_WEIGHT), 0.0)
        self.average_low += weight * (low - self.average_low)
        self.average_high += weight * (high - self.average_high)

    def _add_counts(self, counts: Array, reach: Array) -> None:
        """Add histograms; where reaches differ, the narrower one is folded first."""
        other = np.flatnonzero(reach != self.reach)
        if other.size:
            counts = counts.astype(np.int64)
        for index in other:
            own, wider = self.reach[index], max(self.reach[index], reach[index])
            self.counts[index] = fold(self.counts[index], own, wider)
            counts[index] = fold(counts[index], reach[index], wider)
            self.reach[index] = wider
        self.counts += counts

    def _add_ranges(self, low: Array, high: Array, mean: Array, shares: Array) -> None:
        """Add the ranges of channels; `shares` of the elements so far are those of this run."""
        share = shares[self._owners]
        there = share > 0
        np.minimum(self.low, low, out=self.low, where=there)
        np.maximum(self.high, high, out=self.high, where=there)
        inside = np.fmax(low, np.fmin(mean, high))  # even where the sum of numbers overflows
        self.mean += share * (np.where(there, inside, 0) - self.mean)

    def observations(self) -> dict[str, Observation]:
        """What was observed of each value that some run computed, by name."""
        values = enumerate(self.values)
        return {value.name: self._observation(i) for i, value in values if self.runs[i]}

    def _observation(self, index: int) -> Observation:
        part = slice(*self._starts[index : index + 2])
        ranges = ChannelRanges(
            self.low[part].copy(), self.high[part].copy(), self.mean[part].astype(np.float32)
        )
        return Observation(
            float(ranges.low.min()),
            float(ranges.high.max()),
            float(self.average_low[index]),
            float(self.average_high[index]),
            float(self.reach[index]),
            self.counts[index].copy(),
            ranges if self.values[index].channels else None,
            int(self.runs[index]),
        )


def _reaches(low: Array, high: Array) -> Array:
    """The reach of each of several ranges, as in the function that was run."""
    pairs = zip(low.tolist(), high.tolist(), strict=True)
    return np.array([reach_of(*pair) for pair in pairs])


def merge_observations(
    first: Mapping[str, Observation], second: Mapping[str, Observation]
) -> dict[str, Observation]:
    """All observations of both; those of the same value are merged."""
    merged = dict(first)
    for name, observation in second.items():
        merged[name] = merged[name].merge(observation) if name in merged else observation
    return merged
