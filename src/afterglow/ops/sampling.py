"""Reading tensors between their elements: what GridSample, RoiAlign and DeformConv share.

Each piece is there twice, for arrays and for values in a graph, with the same structure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import reduce
from itertools import product
from typing import Generic, TypeVar

import numpy as np

from afterglow.graph import Builder, Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import (
    Add,
    And,
    Floor,
    LessEqual,
    Max,
    Min,
    Mod,
    Mul,
    Sub,
    Where,
    scalar,
)
from afterglow.ops.image import Interpolation
from afterglow.ops.indexing import Gather
from afterglow.ops.movement import Reshape
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import i64
from afterglow.types.extent import is_ranged, larger_extent

T = TypeVar("T", Array, Value)
A = -0.75
"""Keys' parameter of the cubic kernel."""
INNER = (A + 2, -(A + 3), 0.0, 1.0)
"""The kernel at distances up to 1: coefficients, highest power first."""
OUTER = (A, -5 * A, 8 * A, -4 * A)
"""The kernel at distances from 1 to 2."""


class Border(Enum):
    """What lies outside a tensor: zeros, its border repeated, or its mirror image."""

    ZEROS = "zeros"
    EDGE = "edge"
    REFLECT = "reflect"


@dataclass(frozen=True)
class Tap(Generic[T]):
    """A neighbour along one axis of each position: its index, and its weight unless that is 1.

    Where `inside` is false, zero is read instead.
    """

    index: T
    weight: T | None
    inside: T | None


@dataclass(frozen=True)
class Axis:
    """How an axis of some extent is read between its elements and beyond its ends."""

    extent: int
    mode: Interpolation = Interpolation.LINEAR
    border: Border = Border.ZEROS
    mirrors_at_centres: bool = True
    """Whether mirrors stand at the centres of the outermost elements, or at their outer ends."""

    @property
    def mirrors(self) -> tuple[float, float]:
        """Where a mirror image begins, and the distance to the other mirror."""
        if not self.mirrors_at_centres:
            return -0.5, self.extent if is_ranged(self.extent) else float(self.extent)
        distance = larger_extent(1, self.extent - 1)
        return 0.0, distance if is_ranged(distance) else float(distance)

    def taps(self, at: Array) -> list[Tap[Array]]:
        """The neighbours of each position; those of a cubic are moved inside one by one."""
        at = at if self.mode is Interpolation.CUBIC else self._folded(at)
        base = np.floor(at)
        part = at - base
        found = []
        for offset, weight in self._weights(part).items():
            index, inside = base + offset, None
            if self.border is Border.ZEROS:
                inside = (index >= 0) & (index <= self.extent - 1)
            index = np.clip(self._folded(index), 0, self.extent - 1)
            index = np.nan_to_num(index)  # NaN must lie somewhere, too
            found.append(Tap(index.astype(np.int64), weight, inside))
        return found

    def _weights(self, part: Array) -> dict[int, Array | None]:
        match self.mode:
            case Interpolation.NEAREST:
                return {0: None}
            case Interpolation.LINEAR:
                return {0: 1 - part, 1: part}
        inner, outer = np.array(INNER, part.dtype), np.array(OUTER, part.dtype)
        return {
            -1: np.polyval(outer, 1 + part),
            0: np.polyval(inner, part),
            1: np.polyval(inner, 1 - part),
            2: np.polyval(outer, 2 - part),
        }

    def _folded(self, at: Array) -> Array:
        """Positions moved inside, where that is what the border does."""
        match self.border:
            case Border.EDGE:
                return np.clip(at, 0, self.extent - 1)
            case Border.REFLECT:
                low, distance = self.mirrors
                there = np.mod(at - low, 2 * distance)
                return low + np.minimum(there, 2 * distance - there)
        return at

    def emit_taps(self, b: Builder, at: Value) -> list[Tap[Value]]:
        """As `taps`, in a graph."""
        at = at if self.mode is Interpolation.CUBIC else self._emit_folded(b, at)
        base = b.emit(Floor(), at)
        part = b.emit(Sub(), at, base)
        last = scalar(b, self.extent - 1, at)
        found = []
        for offset, weight in self._emit_weights(b, part).items():
            index, inside = b.emit(Add(), base, scalar(b, offset, at)), None
            if self.border is Border.ZEROS:
                above = b.emit(LessEqual(), scalar(b, 0, at), index)
                inside = b.emit(And(), above, b.emit(LessEqual(), index, last))
            clipped = emit_clipped(b, self._emit_folded(b, index), self.extent - 1)
            zero = scalar(b, 0, clipped)  # where NaN lies
            there = b.emit(Where(), b.emit(LessEqual(), zero, clipped), clipped, zero)
            found.append(Tap(b.emit(Cast(i64), there), weight, inside))
        return found

    def _emit_weights(self, b: Builder, part: Value) -> dict[int, Value | None]:
        if self.mode is Interpolation.NEAREST:
            return {0: None}
        rest = b.emit(Sub(), scalar(b, 1, part), part)
        if self.mode is Interpolation.LINEAR:
            return {0: rest, 1: part}
        one = scalar(b, 1, part)
        return {
            -1: _emit_polynomial(b, OUTER, b.emit(Add(), one, part)),
            0: _emit_polynomial(b, INNER, part),
            1: _emit_polynomial(b, INNER, rest),
            2: _emit_polynomial(b, OUTER, b.emit(Add(), one, rest)),
        }

    def _emit_folded(self, b: Builder, at: Value) -> Value:
        match self.border:
            case Border.EDGE:
                return emit_clipped(b, at, self.extent - 1)
            case Border.REFLECT:
                low, distance = self.mirrors
                start, period = scalar(b, low, at), scalar(b, 2 * distance, at)
                there = b.emit(Mod(), b.emit(Sub(), at, start), period)
                back = b.emit(Sub(), period, there)
                return b.emit(Add(), start, b.emit(Min(), there, back))
        return at


def emit_clipped(b: Builder, x: Value, high: float) -> Value:
    """x between 0 and `high`."""
    return b.emit(Min(), b.emit(Max(), x, scalar(b, 0, x)), scalar(b, high, x))


def _emit_polynomial(b: Builder, coefficients: Sequence[float], x: Value) -> Value:
    first, *others = (scalar(b, coefficient, x) for coefficient in coefficients)
    return reduce(lambda total, c: b.emit(Add(), b.emit(Mul(), total, x), c), others, first)


def corners(x: Array, batch: Array, taps: Sequence[Sequence[Tap[Array]]]) -> Iterator[Array]:
    """What x [N, spatial…, C] holds at each combination of taps along its axes, weighted.

    The indices of all axes, and those of the batch, broadcast to the shape of the positions; the
    channels follow it.
    """
    flat = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    for choice in product(*taps):
        place = batch
        for tap, extent in zip(choice, x.shape[1:-1], strict=True):
            place = place * extent + tap.index
        value = flat[place]
        for tap in choice:
            if tap.inside is not None:
                value = np.where(tap.inside[..., None], value, 0)
            if tap.weight is not None:
                value = value * tap.weight[..., None]
        yield value


def emit_corners(
    b: Builder, x: Value, batch: Value, taps: Sequence[Sequence[Tap[Value]]]
) -> Iterator[Value]:
    """As `corners`, in a graph."""
    channels = x.type.shape[-1]
    flat = b.emit(Reshape((x.type.size // max(1, channels), channels)), x)
    for choice in product(*taps):
        place = batch
        for tap, extent in zip(choice, x.type.shape[1:-1], strict=True):
            rows = b.emit(Mul(), place, scalar(b, extent, place))
            place = b.emit(Add(), rows, tap.index)
        value = b.emit(Gather(0), flat, place)
        for tap in choice:
            if tap.inside is not None:
                value = b.emit(Where(), _over_channels(b, tap.inside), value, scalar(b, 0, value))
            if tap.weight is not None:
                weight = b.emit(Cast(x.type.dtype), tap.weight)
                value = b.emit(Mul(), value, _over_channels(b, weight))
        yield value


def _over_channels(b: Builder, x: Value) -> Value:
    return b.emit(Reshape((*x.type.shape, 1)), x)
