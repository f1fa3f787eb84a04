"""The tables of a resampled axis of ranged extents: computed when the code runs, as the op says.

`Resize.table` says the same of known extents, and computes in double precision, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Pointer,
    Value,
    absolute,
    ceil,
    clamp,
    convert,
    equal,
    floor,
    larger,
    rint,
    select,
)
from afterglow.ops.image import WEIGHT_ONE, Coordinates, Interpolation, Resize, Rounding
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32, f64, i64

ROUNDING: dict[Rounding, Callable[[Value], Value]] = {
    Rounding.HALF_DOWN: lambda x: ceil(x - 0.5),
    Rounding.HALF_UP: lambda x: floor(x + 0.5),
    Rounding.FLOOR: floor,
    Rounding.CEIL: ceil,
}
CLOSE = 1e-6
"""The part of a length by which it may differ from the size that it stands for."""


@dataclass(frozen=True)
class RangedAxis:
    """A resampled axis whose extent, or size in the result, is ranged."""

    op: Resize
    axis: int
    extent: int
    stride: int
    whole: bool = False
    """Whether x has integers."""

    @property
    def size(self) -> int:
        """The extent of the result."""
        return self.op.sizes[self.axis]

    @property
    def scale(self) -> float:
        """The scale; 0 if it is that of the extents."""
        scale = self.op.scales[self.axis]
        return 0.0 if scale == int(scale) and self.size == int(scale) * self.extent else scale

    def neighbours(self, e: Emitter, place: Value) -> tuple[list[Value], list[Value]]:
        """The offsets in x of what an element of the result comes from, and their weights."""
        at = self._position(e, place)
        if self.op.mode is Interpolation.NEAREST:
            index = convert(ROUNDING[self.op.rounding](at), i64)
            return [self._offset(e, index)], []
        base, shrink = floor(at), self.op.shrink(self.axis, self.extent)
        within, first = at - base, convert(base, i64)
        weights, indices = [], []
        for step in self.op.taps(self.axis, self.extent):
            distance = absolute((e.constant(f64, float(step)) - within) * shrink)
            indices.append(first + step)
            weights.append(self._kept(e, indices[-1], self._weight(distance)))
        total = reduce(add, weights)
        divisor = select(equal(total, 0.0), total.like(1.0), total)
        weights = [w / divisor for w in weights]
        if self.whole and self.op.has_whole_weights:
            first = rint(weights[0] * float(WEIGHT_ONE)) * (1 / WEIGHT_ONE)
            weights = [first, 1.0 - first]
        return [self._offset(e, index) for index in indices], weights

    def _offset(self, e: Emitter, index: Value) -> Value:
        last = convert(e.index(self.extent), i64) - 1
        inside = clamp(index, 0, last)
        return inside * convert(e.index(self.stride), i64)

    def _kept(self, e: Emitter, index: Value, weight: Value) -> Value:
        """A weight, unless what lies outside does not count."""
        if not self.op.exclude_outside:
            return weight
        inside = (index >= 0) & (index < convert(e.index(self.extent), i64))
        return select(inside, weight, weight.like(0.0))

    def _weight(self, distance: Value) -> Value:
        """The weight of an element at a distance: as the functions of the op say."""
        if self.op.mode is Interpolation.LINEAR:
            return larger(1.0 - distance, distance.like(0.0))
        a = self.op.cubic
        inner = (distance * (a + 2) - (a + 3)) * (distance * distance) + 1.0
        outer = ((distance - 5.0) * distance + 8.0) * distance * a - 4 * a
        far = select(distance < 2.0, outer, distance.like(0.0))
        return select(distance <= 1.0, inner, far)

    def _position(self, e: Emitter, place: Value) -> Value:
        """Where in x an element of the result lies."""
        i = convert(place, f64)
        extent, size = (convert(e.index(n), f64) for n in (self.extent, self.size))
        match self.op.coordinates:
            case Coordinates.ASYMMETRIC:
                return self._unscaled(i, extent, size)
            case Coordinates.HALF_PIXEL_UNSHIFTED:
                return self._unscaled(i + 0.5, extent, size)
            case Coordinates.ALIGN_CORNERS:
                length = self._length(extent, size)
                aligned = i * (extent - 1.0) / (length - 1.0)
                return select(equal(length, 1.0), i.like(0.0), aligned)
            case Coordinates.HALF_PIXEL_SYMMETRIC:
                middle = self._unscaled(i + 0.5 - size / 2.0, extent, size)
                return middle + extent / 2.0 - 0.5
        half = self._unscaled(i + 0.5, extent, size) - 0.5
        if self.op.coordinates is Coordinates.HALF_PIXEL_OR_START:
            return select(equal(size, 1.0), i, half)
        return half

    def _is_whole(self, extent: Value, size: Value) -> Value:
        """Whether the scale is that of the extents."""
        length = extent * self.scale
        return absolute(length - size) <= larger(length, size) * CLOSE

    def _length(self, extent: Value, size: Value) -> Value:
        if self.scale == 0:
            return size
        return select(self._is_whole(extent, size), size, extent * self.scale)

    def _unscaled(self, i: Value, extent: Value, size: Value) -> Value:
        whole = i * extent / size
        if self.scale == 0:
            return whole
        single = convert(i, f32)
        divided = convert(single / single.like(self.scale), f64)
        return select(self._is_whole(extent, size), whole, divided)


def write_table(
    e: Emitter,
    axis: RangedAxis,
    place: Value,
    row: int,
    offsets: Pointer,
    weights: Pointer | None,
    one: float,
) -> None:
    """Write the entries of an element of the result, those of each tap a row apart.

    Weights are multiples of 1 / `one`, where they are integers.
    """
    found, factors = axis.neighbours(e, place)
    for tap, offset in enumerate(found):
        offsets.store(offset, place + tap * row)
    for tap, factor in enumerate(factors):
        if weights is not None:
            weights.store(convert(factor * one, weights.dtype), place + tap * row)
