"""How far arrays are from a reference: largest error, relative, in ulps, and L2."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

CHUNK = 1 << 20
"""Elements that are widened at once."""
_INTEGERS = {2: np.int16, 4: np.int32, 8: np.int64}


@dataclass(frozen=True)
class NonFinite:
    """Elements of an array that are no finite numbers: how many, and where the first one is."""

    nan: int = 0
    infinite: int = 0
    first: int | None = None
    """The place of the first one, in row-major order."""

    @staticmethod
    def of(array: Array) -> NonFinite:
        """Those of an array; only floats have any."""
        nan, infinite, first = 0, 0, None
        for start, part in _chunks(array):
            wrong = np.flatnonzero(~np.isfinite(part))
            if wrong.size:
                first = start + int(wrong[0]) if first is None else first
                nans = int(np.isnan(part).sum())
                nan, infinite = nan + nans, infinite + wrong.size - nans
        return NonFinite(nan, infinite, first)

    def __str__(self) -> str:
        parts = (self.nan, "NaN"), (self.infinite, "infinite")
        return ", ".join(f"{count:,} {what}" for count, what in parts if count)


@dataclass(frozen=True)
class Difference:
    """How an array differs from a reference.

    Errors are over the elements that are finite in both; NaN equals NaN, and an infinity itself.
    """

    absolute: float = 0.0
    """The largest absolute error; infinite if finite and other numbers are not in the same places,
    or the arrays cannot be compared."""
    scale: float = 0.0
    """The largest finite magnitude of the reference."""
    ulps: float = 0.0
    """The largest distance in floats of the type of the array: 1 is the neighbouring number."""
    l2: float = 0.0
    """The norm of the error, divided by that of the reference."""
    place: int | None = None
    """Where the largest error is, in row-major order."""
    mismatch: str = ""
    """What makes the arrays incomparable: shapes, or element types."""
    actual: NonFinite = NonFinite()
    expected: NonFinite = NonFinite()
    no_numbers: bool = False
    """Whether not a single element of the reference is a number."""

    @property
    def relative(self) -> float:
        """The largest error by the largest finite magnitude of the reference."""
        return self.absolute / self.scale if self.scale else self.absolute

    @staticmethod
    def of(actual: Array, expected: Array) -> Difference:
        """How an array differs from a reference."""
        for what in ("shape", "dtype"):
            mine, other = getattr(actual, what), getattr(expected, what)
            if mine != other:
                kind = "shape" if what == "shape" else "element type"
                return Difference(
                    math.inf, l2=math.inf, mismatch=f"{kind} {mine} instead of {other}"
                )
        if actual.dtype.kind in "OSUb":
            return _of_texts(actual, expected)
        found = _Sums()
        for (start, mine), (_, wanted) in zip(_chunks(actual), _chunks(expected), strict=True):
            found.add(start, mine, wanted)
        finite = NonFinite.of(actual), NonFinite.of(expected)
        return found.difference(_ulps(actual, expected), *finite, size=expected.size)


def relative_error(ours: Array, theirs: Array) -> float:
    """The largest absolute error divided by the reference's largest finite magnitude.

    It is infinite if shapes, element types or non-finite elements differ.
    """
    return Difference.of(ours, theirs).relative


class _Sums:
    """What is known of two arrays, chunk by chunk."""

    def __init__(self) -> None:
        self.absolute, self.scale = 0.0, 0.0
        self.place: int | None = None
        self.error, self.signal = 0.0, 0.0

    def add(self, start: int, mine: Array, wanted: Array) -> None:
        same = (mine == wanted) | (np.isnan(mine) & np.isnan(wanted))
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.where(same, 0.0, np.abs(mine - wanted))
            distance[np.isnan(distance)] = np.inf
            finite = np.abs(wanted[np.isfinite(wanted)])
            self.error += float(np.square(distance).sum())
            self.signal += float(np.square(finite).sum())
        self.scale = max(self.scale, float(finite.max(initial=0.0)))
        largest = float(distance.max(initial=0.0))
        if largest > self.absolute:
            self.absolute, self.place = largest, start + int(distance.argmax())

    def difference(
        self, ulps: float, actual: NonFinite, expected: NonFinite, *, size: int
    ) -> Difference:
        l2 = math.sqrt(self.error / self.signal) if self.signal else math.sqrt(self.error)
        none = size > 0 and expected.nan == size
        return Difference(
            self.absolute, self.scale, ulps, l2, self.place, "", actual, expected, none
        )


def _of_texts(actual: Array, expected: Array) -> Difference:
    wrong = np.flatnonzero((actual != expected).reshape(-1))
    if not wrong.size:
        return Difference()
    return Difference(math.inf, l2=math.inf, place=int(wrong[0]))


def _chunks(array: Array) -> Iterator[tuple[int, Array]]:
    """Parts of an array, widened, each with the place of its first element."""
    if array.dtype.kind in "OSU":
        return
    wide: Any = np.complex128 if array.dtype.kind == "c" else np.float64
    flat = array.reshape(-1)
    for start in range(0, flat.size, CHUNK):
        yield start, flat[start : start + CHUNK].astype(wide)


def _ulps(actual: Array, expected: Array) -> float:
    """The largest distance of finite floats, counted in floats of their type."""
    integer = _INTEGERS.get(actual.dtype.itemsize)
    if integer is None or not (actual.dtype.kind == "f" or actual.dtype.name == "bfloat16"):
        return 0.0
    mine, wanted = (np.ascontiguousarray(array).reshape(-1) for array in (actual, expected))
    most = 0.0
    for start in range(0, mine.size, CHUNK):
        parts = mine[start : start + CHUNK], wanted[start : start + CHUNK]
        finite = np.isfinite(parts[0]) & np.isfinite(parts[1])
        first, second = (_ordered(part[finite], integer) for part in parts)
        most = max(most, float(np.abs(first - second).max(initial=0)))
    return most


def _ordered(array: Array, integer: Any) -> Array:
    """Numbers in the order of floats, neighbours differing by one; both zeros are 0."""
    bits = array.view(integer)
    wide = bits.astype(np.longdouble if integer is np.int64 else np.int64)
    ordered: Array = np.where(bits < 0, np.iinfo(integer).min - wide, wide)
    return ordered
