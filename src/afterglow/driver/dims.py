"""Options for dynamic dimensions: a fixed extent, a list of extents to compile, or a range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import product
from math import prod
from operator import index
from typing import Any, TypeAlias

from afterglow.runtime import TensorInfo
from afterglow.runtime.versions import SPECIALISATIONS
from afterglow.support.errors import AfterglowError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import LARGEST_EXTENT, Dim, RangedExtent, is_ranged, ranged
from afterglow.types.extent.text import read_extent

DimExtents: TypeAlias = "int | str | Sequence[int]"
"""An extent, an expression over others, a list of extents to compile ahead, or a range as a tuple.

The tuple has the first and the last extent, and may have a step that extents are multiples of.
"""
Dims: TypeAlias = Mapping[str, DimExtents]
"""Extents of dimensions, by name."""


@dataclass(frozen=True)
class DimOptions:
    """Options for dimensions by name: fixed extents, lists to compile ahead, and ranges."""

    fixed: Mapping[str, int] = field(default_factory=dict)
    ahead: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ranges: Mapping[str, Dim] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    """Expressions over other dimensions."""

    @staticmethod
    def of(dims: Dims) -> DimOptions:
        """Sort the extents of dimensions by kind: number, text, list or tuple (a range)."""
        fixed, ahead, ranges, derived = {}, {}, {}, {}
        for name, given in dims.items():
            if isinstance(given, tuple):
                ranges[name] = _range(name, given)
            elif isinstance(given, list):
                ahead[name] = _extents(name, given)
            elif isinstance(given, str):
                derived[name] = given
            else:
                fixed[name] = _extent(name, given)
        single = {name: dim.low for name, dim in ranges.items() if dim.low == dim.high}
        several = {name: dim for name, dim in ranges.items() if name not in single}
        return DimOptions({**fixed, **single}, ahead, several, derived)

    @property
    def bound(self) -> dict[str, int]:
        """The extents of all dimensions but the listed ones: numbers, and those of ranges."""
        known = {**self.fixed, **{name: ranged(dim) for name, dim in self.ranges.items()}}
        return {**known, **{name: _derived(name, e, known) for name, e in self.derived.items()}}

    def bindings(self) -> Iterator[dict[str, int]]:
        """Every combination of the listed extents, together with those of all other dimensions."""
        count = prod(map(len, self.ahead.values()))
        if count > SPECIALISATIONS:
            raise UsageError(
                f"{count} versions of the model are requested, the limit is {SPECIALISATIONS}",
                help=f"list fewer extents of {', '.join(map(repr, self.ahead))}",
            )
        for extents in product(*self.ahead.values()):
            yield {**self.bound, **dict(zip(self.ahead, extents, strict=True))}

    def check_names(self, inputs: Sequence[TensorInfo], help: str = "") -> None:
        """Raise if a list or range names a dimension that is free in no input.

        Names of numbers are checked where they are bound.
        """
        ranges = (name for name, extent in self.bound.items() if is_ranged(extent))
        check_names((*self.ahead, *ranges), inputs, help)


def check_names(names: Iterable[str], inputs: Sequence[TensorInfo], help: str = "") -> None:
    """Refuse names of dimensions that are free in no input."""
    known = sorted({e for info in inputs for e in info.shape or () if isinstance(e, str)})
    for name in names:
        if name not in known:
            listed = f": there are {', '.join(map(repr, known))}" if known else ""
            raise UsageError(f"no input has a dynamic dimension {name!r}{listed}", help=help)


def _derived(name: str, expression: str, known: Mapping[str, int]) -> int:
    try:
        return read_extent(expression, known)
    except AfterglowError as error:
        raise UsageError(
            f"dimension {name!r} cannot be {expression!r}: {error.what}",
            help="a text is an expression over dimensions with an extent or bounds: 'past + 1'; "
            "bounds are a tuple: (1, 512)",
        ) from None


def _range(name: str, given: Sequence[int]) -> Dim:
    reason = _fault(given)
    if reason:
        raise UsageError(
            f"dimension {name!r} cannot be {given!r}: {reason}",
            help="a range is the first and last extent, and a step if extents are multiples of it",
        )
    return Dim(name, *map(index, given))


def _fault(given: Sequence[int]) -> str:
    """What is wrong with a range; empty if nothing is."""
    if len(given) not in (2, 3) or not all(map(_is_extent, given)):
        return "a range has two or three numbers, none of them negative"
    low, high, step = (*map(index, given), 1)[:3]
    if low > high:
        return "the first extent is larger than the last"
    if high > LARGEST_EXTENT:
        return f"the largest extent there can be is {LARGEST_EXTENT}"
    if step == 0:
        return "the step is 0"
    odd = next((extent for extent in (low, high) if extent % step), None)
    return "" if odd is None else f"{odd} is not a multiple of the step {step}"


def _extents(name: str, given: Sequence[int]) -> tuple[int, ...]:
    if not given or not all(map(_is_extent, given)):
        raise _no_extent(name, given)
    return tuple(dict.fromkeys(map(index, given)))


def _extent(name: str, given: Any) -> int:
    if not _is_extent(given):
        raise _no_extent(name, given)
    return given if isinstance(given, RangedExtent) else index(given)


def _no_extent(name: str, given: Any) -> UsageError:
    return UsageError(
        f"dimension {name!r} cannot be {given!r}",
        help="give an extent, 8, a range, (1, 512), or several extents, [1, 4, 8]",
    )


def _is_extent(value: Any) -> bool:
    try:
        return index(value) >= 0
    except TypeError:
        return False
