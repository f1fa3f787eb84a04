"""What a caller requests of dynamic dimensions: an extent, extents to have ready, or a range."""

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

DimRequest: TypeAlias = "int | Sequence[int]"
"""An extent, a list of extents to compile ahead, or a tuple: the first and last that may come."""
Dims: TypeAlias = Mapping[str, DimRequest]
"""Requests by the names of dimensions."""


@dataclass(frozen=True)
class DimRequests:
    """Requests, by kind."""

    fixed: Mapping[str, int] = field(default_factory=dict)
    ahead: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @staticmethod
    def of(dims: Dims) -> DimRequests:
        """Tell them apart: a list has extents, a tuple is a range."""
        fixed: dict[str, Any] = {}
        ahead, ranges = {}, {}
        for name, request in dims.items():
            if isinstance(request, tuple):
                ranges[name] = _range(name, request)
            elif isinstance(request, list):
                ahead[name] = _extents(name, request)
            else:
                fixed[name] = request
        return DimRequests(fixed, ahead, ranges)

    def bindings(self) -> Iterator[dict[str, int]]:
        """Every combination of extents to compile ahead, with the fixed ones; one without lists."""
        count = prod(map(len, self.ahead.values()))
        if count > SPECIALISATIONS:
            raise UsageError(
                f"{count} versions of the model are requested, the limit is {SPECIALISATIONS}",
                help=f"list fewer extents of {', '.join(map(repr, self.ahead))}",
            )
        for extents in product(*self.ahead.values()):
            yield {**self.fixed, **dict(zip(self.ahead, extents, strict=True))}

    def check_names(self, inputs: Sequence[TensorInfo]) -> None:
        """Refuse names that no input has; those of fixed ones are checked where they are bound."""
        check_names((*self.ahead, *self.ranges), inputs)


def check_names(names: Iterable[str], inputs: Sequence[TensorInfo]) -> None:
    """Refuse names of dimensions that are free in no input."""
    known = sorted({e for info in inputs for e in info.shape or () if isinstance(e, str)})
    for name in names:
        if name not in known:
            listed = f": there are {', '.join(map(repr, known))}" if known else ""
            raise UsageError(f"no input has a dynamic dimension {name!r}{listed}")


def _range(name: str, request: Sequence[int]) -> tuple[int, int]:
    if len(request) != 2 or not all(map(_is_extent, request)) or request[0] > request[1]:
        raise UsageError(
            f"dimension {name!r} cannot be {request!r}", help="a tuple is the first and last extent"
        )
    return index(request[0]), index(request[1])


def _extents(name: str, request: Sequence[int]) -> tuple[int, ...]:
    if not request or not all(map(_is_extent, request)):
        raise UsageError(f"dimension {name!r} cannot be {request!r}", help="a list has extents")
    return tuple(dict.fromkeys(map(index, request)))


def _is_extent(value: Any) -> bool:
    try:
        return index(value) >= 0
    except TypeError:
        return False
