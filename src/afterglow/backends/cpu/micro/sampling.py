"""Reading x [N, spatial…, C] between its elements: neighbours of a position, weighted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import product

from afterglow.backends.cpu.llvm.emitter import (
    Pointer,
    Value,
    clamp,
    convert,
    floor,
    fma,
    select,
    smaller,
)
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.micro.sliding import load
from afterglow.ops.image import Interpolation
from afterglow.ops.sampling import INNER, OUTER, Axis, Border
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType


@dataclass(frozen=True)
class SampleTap:
    """A neighbour along one axis: its index, and its weight unless that is 1.

    Where `inside` is false, zero is read instead.
    """

    index: Value
    weight: Value | None
    inside: Value | None


def taps_of(axis: Axis, at: Value) -> list[SampleTap]:
    """The neighbours of a position along an axis, as `Axis.taps` finds them."""
    at = at if axis.mode is Interpolation.CUBIC else _folded(axis, at)
    base = floor(at)
    part = at - base
    found = []
    for offset, weight in _weights(axis.mode, part).items():
        index, inside = base + offset, None
        if axis.border is Border.ZEROS:
            inside = (index >= 0) & (index <= axis.extent - 1)
        place = clamp(_folded(axis, index), 0, axis.extent - 1)
        whole = convert(place, at.code.index_type, saturate=True)  # NaN must lie somewhere, too
        found.append(SampleTap(whole, weight, inside))
    return found


def _folded(axis: Axis, at: Value) -> Value:
    match axis.border:
        case Border.EDGE:
            return clamp(at, 0, axis.extent - 1)
        case Border.REFLECT:
            low, distance = axis.mirrors
            there = at - low
            there = there - floor(there / (2 * distance)) * (2 * distance)
            return smaller(there, 2 * distance - there) + low
    return at


def _weights(mode: Interpolation, part: Value) -> dict[int, Value | None]:
    match mode:
        case Interpolation.NEAREST:
            return {0: None}
        case Interpolation.LINEAR:
            return {0: 1 - part, 1: part}
    return {
        -1: _polynomial(OUTER, 1 + part),
        0: _polynomial(INNER, part),
        1: _polynomial(INNER, 1 - part),
        2: _polynomial(OUTER, 2 - part),
    }


def _polynomial(coefficients: Sequence[float], x: Value) -> Value:
    first, *others = coefficients
    return reduce(lambda total, c: fma(total, x, c), others, x.like(first))


@dataclass(frozen=True)
class Corner:
    """A combination of neighbours along all axes: where it lies, and what it counts."""

    place: Pointer
    weight: Value | None
    inside: Value | None

    def read(
        self, step: int, channel: Value, lanes: int, mask: Value | None, dtype: DType
    ) -> Value:
        """Neighbouring channels there, zero outside, not yet weighted."""
        row = Row(self.place, step)
        value = load(row, channel, lanes, mask, dtype)
        return value if self.inside is None else select(self.inside, value, value.like(0))


def corners_of(
    image: Pointer, strides: Sequence[int], taps: Sequence[Sequence[SampleTap]], dtype: DType
) -> Iterator[Corner]:
    """All combinations of neighbours, in the order of `afterglow.ops.sampling.corners`."""
    for choice in product(*taps):
        place = image
        for tap, stride in zip(choice, strides, strict=True):
            place = place + tap.index * stride
        weights = [convert(tap.weight, dtype) for tap in choice if tap.weight is not None]
        inside = [tap.inside for tap in choice if tap.inside is not None]
        yield Corner(place, _joined(lambda a, b: a * b, weights), _joined(_and, inside))


def _and(a: Value, b: Value) -> Value:
    return a & b


def _joined(combine: Callable[[Value, Value], Value], values: Sequence[Value]) -> Value | None:
    return reduce(combine, values) if values else None
