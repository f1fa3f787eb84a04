"""The range of each index of a statement, so that no index leaves a tensor.

An index that stands alone runs over the whole axis, and all such axes must have the same extent. A
shifted or strided one runs as far as it stays inside: `x[i + 2*k]` with k from 0 to 2 leaves i the
extent of x less 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from afterglow.ops.comprehension.syntax import excerpt_at
from afterglow.ops.comprehension.tree import Access, Affine, Statement, accesses, display
from afterglow.support.errors import TypeRuleError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import is_ranged, largest, undecided

Shapes: TypeAlias = Mapping[str, Sequence[int]]
_MOST_COMBINATIONS = 1 << 50


@dataclass(frozen=True)
class Range:
    """The values of an index: `extent` numbers from `first` on."""

    first: int
    extent: int

    @property
    def last(self) -> int:
        """The largest value."""
        return self.first + self.extent - 1


@dataclass(frozen=True)
class _Use:
    """An index expression at an axis of a tensor."""

    affine: Affine
    extent: int
    access: Access

    def __str__(self) -> str:
        return f"{self.access.tensor}[{', '.join(map(str, self.access.indices))}]"


def fault(text: str, what: str, at: int, help: str = "") -> TypeRuleError:
    """A violation of the rules by a place in a text."""
    return TypeRuleError(what, excerpt=excerpt_at(text, at), help=help)


def ranges_of(text: str, statement: Statement, shapes: Shapes) -> dict[str, Range]:
    """The range of each index that tensors of these shapes leave, and that the text gives."""
    uses = list(_uses(text, statement, shapes))
    found = {name: Range(first, end - first) for name, first, end, _ in statement.ranges}
    given = frozenset(found)
    _resolve_alone(text, uses, found)
    while unresolved := [use for use in uses if _open(use, found)]:
        names = {_open(use, found)[0] for use in unresolved if len(_open(use, found)) == 1}
        if not names:
            use = unresolved[0]
            names_text = " and ".join(display(name) for name in _open(use, found))
            example = display(_open(use, found)[-1])
            raise fault(
                text,
                f"the ranges of {names_text} do not follow from {use}",
                use.access.at,
                help=f"give one of them: sum({example} in 0:3), or where {example} in 0:3",
            )
        for name in names:
            candidates = [use for use in unresolved if _open(use, found) == [name]]
            found[name] = Range(0, min(_extent(text, use, name, found) for use in candidates))
    _check_inside(text, uses, found, given)
    combinations = math.prod(largest(each.extent) for each in found.values())
    if combinations > _MOST_COMBINATIONS:
        raise fault(
            text,
            f"{statement.target} takes {combinations:,} combinations of indices, "
            f"the most are {_MOST_COMBINATIONS:,}",
            statement.at,
        )
    return found


def _uses(text: str, statement: Statement, shapes: Shapes) -> Iterator[_Use]:
    for access in accesses(statement.value):
        shape = shapes[access.tensor]
        if len(shape) != len(access.indices):
            raise fault(
                text,
                f"{access.tensor} has {len(shape)} axes, and {len(access.indices)} indices here",
                access.at,
            )
        for affine, extent in zip(access.indices, shape, strict=True):
            if is_ranged(extent) and not affine.is_bare:
                raise undecided(f"the range of {affine} in {access.tensor}", extent)
            yield _Use(affine, extent, access)


def _open(use: _Use, found: Mapping[str, Range]) -> list[str]:
    return [name for name in use.affine.indices if name not in found]


def _resolve_alone(text: str, uses: Sequence[_Use], found: dict[str, Range]) -> None:
    """Ranges of indices that are the only ones at some axis."""
    alone = [use for use in uses if len(use.affine.terms) == 1]
    for name in dict.fromkeys(use.affine.indices[0] for use in alone):
        if name in found:
            continue
        own = [use for use in alone if use.affine.indices[0] == name]
        bare = [use for use in own if use.affine.is_bare]
        for use in bare[1:]:
            if use.extent != bare[0].extent:
                raise fault(
                    text,
                    f"index {display(name)} has extent {bare[0].extent} in {bare[0]} "
                    f"and {use.extent} in {use}",
                    use.access.at,
                )
        rest = [use for use in own if use not in bare] + bare[:1]
        extents = [_extent(text, use, name, {}) for use in rest]
        found[name] = Range(0, extents[0] if len(extents) == 1 else min(extents))


def _extent(text: str, use: _Use, name: str, found: Mapping[str, Range]) -> int:
    """How far an index runs at most; the others are known."""
    if use.affine.is_bare:
        return use.extent
    factor = dict(use.affine.terms)[name]
    others = Affine(use.affine.constant, tuple(t for t in use.affine.terms if t[0] != name))
    low, high = _limits(others, found)
    extent = (use.extent - 1 - high) // factor + 1 if factor > 0 else low // -factor + 1
    if extent < 1:
        raise fault(
            text,
            f"index {use.affine} leaves {use.access.tensor}, whose extent there is {use.extent}, "
            f"for every {display(name)}",
            use.access.at,
        )
    return extent


def _limits(affine: Affine, found: Mapping[str, Range]) -> tuple[int, int]:
    """The smallest and the largest value of an index expression."""
    ends = [
        sorted((factor * found[name].first, factor * found[name].last))
        for name, factor in affine.terms
    ]
    return (
        affine.constant + sum(low for low, _ in ends),
        affine.constant + sum(high for _, high in ends),
    )


def _check_inside(
    text: str, uses: Sequence[_Use], found: Mapping[str, Range], given: frozenset[str]
) -> None:
    for use in uses:
        if use.affine.is_bare and not given.intersection(use.affine.indices):
            continue
        low, high = _limits(use.affine, found)
        if low < 0 or high >= use.extent:
            raise fault(
                text,
                f"index {use.affine} leaves {use.access.tensor}: it runs from {low} to {high}, "
                f"and the extent is {use.extent}",
                use.access.at,
                help="shift it so that it begins at 0, give a smaller range, or pad the tensor",
            )
