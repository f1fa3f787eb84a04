"""What lies around an inner window of a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def slabs_around(
    outer: Sequence[int], starts: Sequence[int], inner: Sequence[int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Starts and extents of windows that, with the inner one, cover a tensor, each place once."""
    first, extents = [0] * len(outer), list(outer)
    for axis, (begin, extent) in enumerate(zip(starts, inner, strict=True)):
        end = begin + extent
        for start, count in ((0, begin), (end, outer[axis] - end)):
            if count:
                yield _with(first, axis, start), _with(extents, axis, count)
        first[axis], extents[axis] = begin, extent


def _with(values: Sequence[int], index: int, value: int) -> list[int]:
    return [value if place == index else old for place, old in enumerate(values)]
