"""Observers: outputs that tell what values a function computes, and the sums of many runs.

Every observed value has its range, a histogram, and the ranges of its channels. What all values
have of one kind is one output, so that a run has few of them. No state is in the graph: a
`Recorder` merges what the runs return.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from afterglow.graph import Builder, Function, Value
from afterglow.ops.activation import Clip
from afterglow.ops.elementwise import Abs, Add, And, BitCast, Max, scalar
from afterglow.ops.histogram import ChannelRanges as ChannelRangesOp
from afterglow.ops.histogram import Histogram
from afterglow.ops.movement import Concat, Reshape
from afterglow.ops.reduction import ReduceMax, ReduceMin
from afterglow.quantization.observation import (
    AVERAGE_WEIGHT,
    BINS,
    LARGEST_REACH,
    LEAST_REACH,
    ChannelRanges,
    Observation,
    fold,
)
from afterglow.support.errors import AfterglowError
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, i32
from afterglow.types.extent import Extents, dims_of, is_ranged, largest

SAMPLED = 1 << 14
"""Elements of a value that a run counts in its histogram, about."""
OUTPUTS = ("counts", "low", "high", "reach", "channel low", "channel high", "channel mean")
"""The outputs of observers; the last three only if some value has channels."""
_EXPONENT, _NEXT_EXPONENT = 0x7F800000, 0x00800000
"""Bits of the exponent of f32, and what makes it one larger."""


class ObservationError(AfterglowError):
    """A value cannot be observed: a run computed NaN or an infinity for it."""


@dataclass(frozen=True)
class ObservedValue:
    """A value that is observed: its name, the model's node that computes it, its channels."""

    name: str
    origin: str
    channels: int
    """The number of channels; 0 if it has none, or not always as many."""


@dataclass(frozen=True)
class Observers:
    """The values that a function observes, in the order of its outputs."""

    values: tuple[ObservedValue, ...]

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs that observe; none if there is nothing to observe."""
        count = 0 if not self.values else 7 if any(v.channels for v in self.values) else 4
        return [f"\0observed {name}" for name in OUTPUTS[:count]]


def add_observers(
    function: Function, values: Sequence[Value], extents: Extents | None = None
) -> Observers:
    """Add outputs that observe values of a function, after its own outputs.

    Values that a predicate may leave undefined are left out. Where dimensions are ranged,
    `extents` are those of a typical run.
    """
    typical = extents or {}
    found = [value for value in values if _is_observable(value)]
    observed = [_Observed(function, value, typical) for value in found]
    observers = Observers(tuple(each.described for each in observed))
    if not observed:
        return observers
    channels = [each.channels for each in observed if each.channels is not None]
    parts = [
        [each.counts for each in observed],
        [each.low for each in observed],
        [each.high for each in observed],
        [each.reach for each in observed],
        *([ranges[kind] for ranges in channels] for kind in range(3) if channels),
    ]
    b = Builder(function, origin="observers")
    for name, found in zip(observers.output_names, parts, strict=True):
        rows = [b.emit(Reshape((1,)), v) if v.type.rank == 0 else v for v in found]
        function.output(name, b.emit(Concat(0), *rows) if len(rows) > 1 else rows[0])
    return observers


def _is_observable(value: Value) -> bool:
    is_defined = value.producer is None or value.producer.predicate is None
    return is_defined and largest(value.type.size) > 0


class _Observed:
    """The nodes that observe one value."""

    def __init__(self, function: Function, value: Value, typical: Extents) -> None:
        self.value = value
        self.b = Builder(function, name="observed", origin=f"observer of {value.name}")
        type = value.type
        self.channels: tuple[Value, ...] | None = None
        if type.rank > 1 and not is_ranged(type.shape[-1]):
            self.channels = self.b.emit_all(ChannelRangesOp(), value)
        lows, highs = (value, value) if self.channels is None else self.channels[:2]
        axes = tuple(range(lows.type.rank))
        self.low = self.b.emit(ReduceMin(axes, keepdims=False), lows)
        self.high = self.b.emit(ReduceMax(axes, keepdims=False), highs)
        self.reach = self._reach()
        step = sampling_step(_bound(type, typical))
        self.counts = self.b.emit(Histogram(BINS, step), value, self.reach)

    @property
    def described(self) -> ObservedValue:
        producer = self.value.producer
        origin = "" if producer is None else producer.origin
        count = 0 if self.channels is None else self.channels[0].type.size
        return ObservedValue(self.value.name, origin, count)

    def _reach(self) -> Value:
        """The next power of two: the exponent alone, and one more."""
        b = self.b
        size = b.emit(Max(), b.emit(Abs(), self.low), b.emit(Abs(), self.high))
        bits = b.emit(BitCast(i32), b.emit(Clip(LEAST_REACH / 2, LARGEST_REACH / 2), size))
        power = b.emit(And(), bits, scalar(b, _EXPONENT, bits))
        return b.emit(BitCast(f32), b.emit(Add(), power, scalar(b, _NEXT_EXPONENT, bits)))


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
        count = len(self.values)
        ends = [0, *accumulate(value.channels for value in self.values)]
        self._parts = [slice(*pair) for pair in pairwise(ends)]
        self._owners = np.repeat(np.arange(count), [value.channels for value in self.values])
        self.runs = np.zeros(count, np.int64)
        self.total = np.zeros(count, np.int64)
        self.low, self.high = np.full(count, np.inf), np.full(count, -np.inf)
        self.average_low, self.average_high = np.zeros(count), np.zeros(count)
        self.reach = np.full(count, LEAST_REACH)
        self.counts = np.zeros((count, BINS), np.int64)
        self.channel_low = np.full(ends[-1], np.inf, np.float32)
        self.channel_high = np.full(ends[-1], -np.inf, np.float32)
        self.channel_mean = np.zeros(ends[-1])

    @property
    def outputs(self) -> int:
        """How many outputs of a run are what observers found."""
        return len(Observers(self.values).output_names)

    def add(self, outputs: Sequence[Array]) -> None:
        """Add what one run returned; raises if a value is NaN or infinite."""
        if not self.values:
            return
        counts, low, high, reach, *channels = outputs
        counts = counts.reshape(-1, BINS)
        sizes = counts.sum(1, dtype=np.int32)
        there = sizes > 0
        self._check(np.where(there, low, 0), np.where(there, high, 0))
        self.total += sizes
        self._add_channels(channels, sizes)
        self._add_range(low, high, there)
        self._add_counts(counts, reach.astype(np.float64), there)
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

    def _add_range(self, low: Array, high: Array, there: Array) -> None:
        weight = np.where(there, np.where(self.runs == 0, 1.0, AVERAGE_WEIGHT), 0.0)
        self.average_low += weight * (np.where(there, low, 0) - self.average_low)
        self.average_high += weight * (np.where(there, high, 0) - self.average_high)
        self.low = np.where(there, np.minimum(self.low, low), self.low)
        self.high = np.where(there, np.maximum(self.high, high), self.high)

    def _add_counts(self, counts: Array, reach: Array, there: Array) -> None:
        """Add histograms; where reaches differ, the narrower one is folded first."""
        reach = np.where(there, reach, self.reach)
        other = np.flatnonzero(reach != self.reach)
        if other.size:
            counts = counts.astype(np.int64)
        for index in other:
            own, wider = self.reach[index], max(self.reach[index], reach[index])
            self.counts[index] = fold(self.counts[index], own, wider)
            counts[index] = fold(counts[index], reach[index], wider)
            self.reach[index] = wider
        self.counts += counts

    def _add_channels(self, channels: Sequence[Array], sizes: Array) -> None:
        if not channels:
            return
        low, high, mean = channels
        share = (sizes / np.maximum(1, self.total))[self._owners]
        there = share > 0
        np.minimum(self.channel_low, low, out=self.channel_low, where=there)
        np.maximum(self.channel_high, high, out=self.channel_high, where=there)
        self.channel_mean += share * (np.where(there, mean, 0) - self.channel_mean)

    def observations(self) -> dict[str, Observation]:
        """What was observed of each value that some run computed, by name."""
        values = enumerate(self.values)
        return {value.name: self._observation(i) for i, value in values if self.runs[i]}

    def _observation(self, index: int) -> Observation:
        part, channels = self._parts[index], None
        if self.values[index].channels:
            mean = self.channel_mean[part].astype(np.float32)
            low, high = self.channel_low[part].copy(), self.channel_high[part].copy()
            channels = ChannelRanges(low, high, mean)
        return Observation(
            float(self.low[index]),
            float(self.high[index]),
            float(self.average_low[index]),
            float(self.average_high[index]),
            float(self.reach[index]),
            self.counts[index].copy(),
            channels,
            int(self.runs[index]),
        )


def merge_observations(
    first: Mapping[str, Observation], second: Mapping[str, Observation]
) -> dict[str, Observation]:
    """All observations of both; those of the same value are merged."""
    merged = dict(first)
    for name, observation in second.items():
        merged[name] = merged[name].merge(observation) if name in merged else observation
    return merged
