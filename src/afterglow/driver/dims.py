"""Options for dynamic dimensions: a fixed extent, a list of extents to compile, or a range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from operator import index
from typing import Any, TypeAlias

from afterglow.runtime import TensorInfo
from afterglow.runtime.versions import SPECIALISATIONS
from afterglow.support.errors import UsageError

DimExtents: TypeAlias = "int | Sequence[int]"
"""An extent, a list of extents to compile ahead, or a tuple: the first and last valid extent."""
Dims: TypeAlias = Mapping[str, DimExtents]
"""Extents of dimensions, by name."""


@dataclass(frozen=True)
class DimOptions:
    """Options for dimensions by name: fixed extents, lists to compile ahead, and ranges."""

    fixed: Mapping[str, int] = field(default_factory=dict)
    ahead: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @staticmethod
    def of(dims: Dims) -> DimOptions:
        """Sort the extents of dimensions by kind: number, list or tuple (a range)."""
        fixed: dict[str, Any] = {}
        ahead, ranges = {}, {}
        for name, given in dims.items():
            if isinstance(given, tuple):
                ranges[name] = _range(name, given)
            elif isinstance(given, list):
                ahead[name] = _extents(name, given)
            else:
                fixed[name] = given
        return DimOptions(fixed, ahead, ranges)

    def bindings(self) -> Iterator[dict[str, int]]:
        """Every combination of the listed extents, together with the fixed ones."""
        count = prod(map(len, self.ahead.values()))
        if count > SPECIALISATIONS:
            raise UsageError(
                f"{count} versions of the model are requested, the limit is {SPECIALISATIONS}",
                help=f"list fewer extents of {', '.join(map(repr, self.ahead))}",
            )
        for extents in product(*self.ahead.values()):
            yield {**self.fixed, **dict(zip(self.ahead, extents, strict=True))}

    def check_names(self, inputs: Sequence[TensorInfo]) -> None:
        """Raise if a list or range names a dimension that no input has."""
        check_names((*self.ahead, *self.ranges), inputs)


def check_names(names: Iterable[str], inputs: Sequence[TensorInfo]) -> None:
    """Refuse names of dimensions that are free in no input."""
    known = sorted({e for info in inputs for e in info.shape or () if isinstance(e, str)})
    for name in names:
        if name not in known:
            listed = f": there are {', '.join(map(repr, known))}" if known else ""
            raise UsageError(f"no input has a dynamic dimension {name!r}{listed}")


def _range(name: str, given: Sequence[int]) -> tuple[int, int]:
    if len(given) != 2 or not all(map(_is_extent, given)) or given[0] > given[1]:
        raise UsageError(
            f"dimension {name!r} cannot be {given!r}", help="a tuple is the first and last extent"
        )
    return index(given[0]), index(given[1])


def _extents(name: str, given: Sequence[int]) -> tuple[int, ...]:
    if not given or not all(map(_is_extent, given)):
        raise UsageError(f"dimension {name!r} cannot be {given!r}", help="a list has extents")
    return tuple(dict.fromkeys(map(index, given)))


def _is_extent(value: Any) -> bool:
    try:
        return index(value) >= 0
    except TypeError:
        return False
