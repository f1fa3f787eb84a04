"""Bounds of dynamic dimensions: those that users give, and those found by growing.

One program serves all extents within bounds. A dimension without given bounds gets some around what
a call brings, wider ones each time it outgrows them, so that any traffic ends with a handful of
programs. As long as it was always 1, as the batch is of most who have one, it is compiled for that:
code for one item is smaller and faster. What no program can be ranged over is compiled for each
extent, and the reason remembered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import gcd
from typing import Any, TypeAlias, TypeVar

import numpy as np

from afterglow.support.errors import FAULTS, AfterglowError, CompileError
from afterglow.types.extent import Dim, is_ranged, ranged

FEWEST = 16
"""The largest extent of a range that is found by growing is at least this."""
GROWTH = ((256, 4), (2**31, 2))
"""By how much a range grows, at least, once an extent is beyond it: fourfold below 256."""
MOST_SEEN = 16
"""How many extents of an axis are remembered, to know which axes have the same."""
STEP = 32
"""Steps that are tried are divisors of it: image models halve extents up to five times."""

Made = TypeVar("Made")


class NoRangesError(CompileError):
    """No bounds of any dimension will do."""


DeclaredShape: TypeAlias = "Sequence[int | str | None] | None"
"""Extents as a model declares them: a number, a name, or None; None for all if the rank is free."""
Place: TypeAlias = tuple[str, int]
"""An axis of an input: the input's name, and the number of the axis."""
Bounds: TypeAlias = Callable[[str, int, int], Dim]
"""Makes bounds of a dimension's name, its extent in a call, and the largest extent before."""


def _widest(name: str, extent: int, before: int) -> Dim:
    growth = next(factor for most, factor in GROWTH if before < most)
    grown = max(_rounded_up(extent), growth * before, FEWEST)
    return Dim(name, 1, before if extent <= before else grown)


def _rounded(name: str, extent: int, before: int) -> Dim:
    return Dim(name, 1, max(_rounded_up(extent), before))


def _fitted(name: str, extent: int, before: int) -> Dim:
    return Dim(name, 1, max(extent, before))


def _stepped(name: str, extent: int, before: int) -> Dim:
    step = gcd(extent, STEP)
    return Dim(name, step, -(-_rounded_up(extent) // step) * step, step)


def _upper_half(name: str, extent: int, before: int) -> Dim:
    return Dim(name, max(1, extent // 2), _rounded_up(extent))


_TRIED: tuple[Bounds, ...] = (
    _widest,
    _rounded,  # there is not enough memory, or a table that ends with a power of two
    _fitted,  # a table ends somewhere else
    _stepped,  # extents are divided, and what comes of it must be even
    _upper_half,  # a window needs some elements
)
"""The bounds that are tried for a dimension, with what the bounds before them may fail for."""


def _rounded_up(extent: int) -> int:
    """The extent, or the next larger power of two."""
    return 1 << max(0, extent - 1).bit_length()


class Ranges:
    """The bounds that versions of one model are compiled with.

    `given` are those that the user gave, by name. With `grows`, all other dynamic dimensions get
    some, too.
    """

    def __init__(self, given: Mapping[str, Dim], *, grows: bool = True) -> None:
        self.given = given
        self.grows = grows
        self.refused: dict[str, str] = {}
        """Dimensions that no program can be ranged over, each with the reason."""
        self._failed: dict[str, int] = {}
        """How many of the bounds that are tried have failed, by dimension."""
        self._largest: dict[str, int] = {}
        """The largest extent of the bounds that a version was compiled with, by dimension."""
        self._seen: dict[Place, tuple[int, ...]] = {}
        """The last extents of each axis for which something was compiled."""
        self._tried: dict[str, Dim] = {}

    def find(
        self,
        declared: Mapping[str, DeclaredShape] | None,
        arrays: Mapping[str, Any],
        make: Callable[[dict[str, tuple[int, ...]]], Made],
    ) -> Made | None:
        """What is made of the shapes of a call with the widest ranges that nothing refuses.

        None if a dimension has no range left. If it is not declared which axes are dynamic, it is
        those that had several extents.
        """
        self._see(arrays)
        declared = self._varied(arrays) if declared is None else declared
        while (shapes := self._shapes(declared, arrays)) is not None:
            try:
                made = make(shapes)
            except (AfterglowError, *FAULTS) as error:
                self.refuse(error, self._tried)
            else:
                self._largest.update((name, dim.high) for name, dim in self._tried.items())
                return made
        return None

    def refuse(self, error: Exception, tried: Iterable[str]) -> None:
        """Try other bounds from now on of those dimensions that an error is about."""
        for name in _blamed(error, [*tried]):
            self._failed[name] = self._failed.get(name, 0) + 1
            is_last = self._failed[name] >= len(_TRIED) or isinstance(error, NoRangesError)
            if name in self.given or is_last:
                self.refused[name] = _reason(error)

    def _see(self, arrays: Mapping[str, Any]) -> None:
        """Note the extents in a call that something is compiled for."""
        for name, array in arrays.items():
            for axis, extent in enumerate(array.shape if isinstance(array, np.ndarray) else ()):
                seen = self._seen.get((name, axis), ())
                self._seen[name, axis] = (*seen, extent)[-MOST_SEEN:]

    def _varied(self, arrays: Mapping[str, Any]) -> dict[str, DeclaredShape]:
        """The shapes of arrays, with None for extents that were others before."""
        return {
            name: [
                extent if len({*self._seen[name, axis]}) == 1 else None
                for axis, extent in enumerate(array.shape)
            ]
            for name, array in arrays.items()
            if isinstance(array, np.ndarray)
        }

    def _shapes(
        self, declared: Mapping[str, DeclaredShape], arrays: Mapping[str, Any]
    ) -> dict[str, tuple[int, ...]] | None:
        """The shapes of a call with ranges for the extents of dimensions; None if none is left."""
        names = self._names(declared)
        found = {name: self._bounds(name, self._seen[place]) for place, name in names.items()}
        self._tried = {name: dim for name, dim in found.items() if dim is not None}
        if not self._tried:
            return None
        extents = {name: ranged(dim) for name, dim in self._tried.items()}
        return {
            name: tuple(
                extents.get(names.get((name, axis), ""), extent)
                for axis, extent in enumerate(array.shape)
            )
            for name, array in arrays.items()
            if isinstance(array, np.ndarray)
        }

    def _bounds(self, name: str, seen: Sequence[int]) -> Dim | None:
        """The bounds to try next for a dimension that had some extents, the last one now.

        None if it is compiled for its extent.
        """
        if name in self.refused or (name not in self.given and not self.grows):
            return None
        if name in self.given:
            return self.given[name]
        extent, before = seen[-1], self._largest.get(name, 0)
        if not before and {*seen} == {1}:
            return None
        for bounds in _TRIED[self._failed.get(name, 0) :]:
            dim = bounds(name, extent, before)
            if dim.low <= extent <= dim.high and dim.low < dim.high:
                return dim
        return None

    def _names(self, declared: Mapping[str, DeclaredShape]) -> dict[Place, str]:
        """The names of dimensions by axis.

        Axes without a name, and those of a name that has several extents in a call, share one if
        they had the same extents in all calls.
        """
        places = {
            (name, axis): extent
            for name, axis, extent in _dynamic_axes(declared)
            if (name, axis) in self._seen
        }
        seen: dict[str, set[tuple[int, ...]]] = {}
        for place, extent in places.items():
            if extent is not None:
                seen.setdefault(extent, set()).add(self._seen[place])
        single = {name for name, histories in seen.items() if len(histories) == 1}
        named = {place: e for place, e in places.items() if e is not None and e in single}
        shared = {self._seen[place]: name for place, name in reversed([*named.items()])}
        for place in places:
            if place not in named:
                named[place] = shared.setdefault(self._seen[place], f"{place[0]}:{place[1]}")
        return named


def given_ranges(dims: Mapping[str, int]) -> dict[str, Dim]:
    """The bounds among extents of dimensions, by name."""
    found = (getattr(extent, "dims", ()) for extent in dims.values() if is_ranged(extent))
    return {dim.name: dim for dims in found for dim in dims}


def _dynamic_axes(
    declared: Mapping[str, DeclaredShape],
) -> Iterable[tuple[str, int, str | None]]:
    """Input, axis and name of each dynamic dimension."""
    for name, shape in declared.items():
        for axis, extent in enumerate(shape or ()):
            if not isinstance(extent, int):
                yield name, axis, extent


def _blamed(error: Exception, names: Sequence[str]) -> Sequence[str]:
    """The dimensions that an error names, or all if it names none.

    Those with their bounds are what something depends on; others may just be in the same type.
    """
    texts = [str(error)]
    if isinstance(error, AfterglowError):
        texts = [error.what, "\n".join(error.excerpt)]
    for behind, text in product((r"\W* \(\d+\.\.", r"\b"), texts):
        found = [name for name in names if re.search(rf"\b{re.escape(name)}{behind}", text)]
        if found:
            return found
    return names


def _reason(error: Exception) -> str:
    """An error in one line: what is wrong, and where."""
    if not isinstance(error, AfterglowError):
        return f"internal error, {type(error).__name__}: {error}"
    several = f": {error.excerpt[0]}" if error.excerpt and not error.where else ""
    return error.what + several + (f", {error.where}" if error.where else "")
