"""What a caller says about free dimensions: an extent, extents to have ready, or a range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from operator import index
from typing import Any, TypeAlias

from afterglow.runtime.versions import SPECIALISATIONS
from afterglow.support.errors import UsageError

Dims: TypeAlias = "Mapping[str, int | Sequence[int]]"
"""By name: an extent, a list of extents to compile ahead, or the first and last that may come."""


@dataclass(frozen=True)
class Wishes:
    """The same, told apart."""

    fixed: Mapping[str, int] = field(default_factory=dict)
    ahead: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @staticmethod
    def of(dims: Dims) -> Wishes:
        """Tell them apart: a list has extents, a tuple is a range."""
        fixed: dict[str, Any] = {}
        ahead, ranges = {}, {}
        for name, wish in dims.items():
            if isinstance(wish, tuple):
                ranges[name] = _range(name, wish)
            elif isinstance(wish, list):
                ahead[name] = _extents(name, wish)
            else:
                fixed[name] = wish
        return Wishes(fixed, ahead, ranges)

    def bindings(self) -> Iterator[dict[str, int]]:
        """Every combination of extents to compile ahead, with the fixed ones."""
        if not self.ahead:
            return
        count = prod(map(len, self.ahead.values()))
        if count > SPECIALISATIONS:
            raise UsageError(
                f"dims asks for {count} versions of the model, at most {SPECIALISATIONS} are kept"
            )
        for extents in product(*self.ahead.values()):
            yield {**self.fixed, **dict(zip(self.ahead, extents, strict=True))}

    def check_names(self, known: Iterable[str]) -> None:
        """Refuse names that no input has; those of fixed ones are checked where they are bound."""
        names = set(known)
        for name in (*self.ahead, *self.ranges):
            if name not in names:
                listed = ", ".join(map(repr, sorted(names)))
                raise UsageError(f"no input has a free dimension {name!r}: there are {listed}")


def _range(name: str, wish: Sequence[int]) -> tuple[int, int]:
    if len(wish) != 2 or not all(map(_is_extent, wish)) or wish[0] > wish[1]:
        raise UsageError(
            f"dimension {name!r} cannot be {wish!r}", help="a tuple is the first and last extent"
        )
    return index(wish[0]), index(wish[1])


def _extents(name: str, wish: Sequence[int]) -> tuple[int, ...]:
    if not wish or not all(map(_is_extent, wish)):
        raise UsageError(f"dimension {name!r} cannot be {wish!r}", help="a list has extents")
    return tuple(dict.fromkeys(map(index, wish)))


def _is_extent(value: Any) -> bool:
    try:
        return index(value) >= 0
    except TypeError:
        return False
