"""Sets of positions, against plain Python sets."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from afterglow.memory.checker.coverage import Coverage, Extent

SIZE = 48
QUICK = settings(max_examples=300, deadline=None)

Axes = list[tuple[int, int]]


def positions(start: int, axes: Axes, unit: int) -> set[int]:
    """What `Extent.of` stands for, one by one."""
    steps = [[i * stride for i in range(count)] for count, stride in axes]
    starts = [start + sum(step) for step in product(*steps)]
    return {first * unit + i for first in starts for i in range(unit)}


@st.composite
def extents(draw: st.DrawFn) -> tuple[Extent, set[int]]:
    """An extent inside the buffer, and its positions."""
    unit = draw(st.sampled_from([1, 2, 4]))
    axes = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(-6, 6)), max_size=3))
    ends = [(count - 1) * stride for count, stride in axes if count]
    low, high = -sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
    last = SIZE // unit - 1 - high
    if last < low:
        axes, low, last = [], 0, SIZE // unit - 1
    start = draw(st.integers(low, last))
    return Extent.of(start, axes, unit), positions(start, axes, unit)


def listed(extent: Extent) -> set[int]:
    return positions(extent.start, [*extent.outer, (extent.run, 1)], 1)


@QUICK
@given(extents())
def test_an_extent_is_the_set_that_it_was_made_from(made: tuple[Extent, set[int]]) -> None:
    extent, expected = made
    assert listed(extent) == expected
    if expected:
        assert (extent.start, extent.end) == (min(expected), max(expected) + 1)


@QUICK
@given(extents(), extents())
def test_extents_meet_where_their_sets_do(
    one: tuple[Extent, set[int]], other: tuple[Extent, set[int]]
) -> None:
    assert one[0].meets(other[0]) == bool(one[1] & other[1])


@QUICK
@given(st.booleans(), st.lists(st.tuples(st.booleans(), extents()), max_size=12), extents())
def test_coverage_is_what_was_added_and_not_removed(
    full: bool,
    changes: list[tuple[bool, tuple[Extent, set[int]]]],
    asked: tuple[Extent, set[int]],
) -> None:
    coverage = Coverage(SIZE, full=full)
    expected = {*range(SIZE)} if full else set()
    for adds, (extent, members) in changes:
        if adds:
            coverage.add(extent)
            expected |= members
        else:
            coverage.remove(extent)
            expected -= members
        gap = coverage.gap(asked[0])
        assert (gap in asked[1] - expected) if gap is not None else asked[1] <= expected


def test_a_buffer_that_fills_up_needs_no_mask() -> None:
    coverage = Coverage(8, full=False)
    coverage.add(Extent.of(0, [(4, 2)]))
    assert coverage.mask is not None
    coverage.add(Extent.of(1, [(4, 2)]))
    assert coverage.mask is None
    assert coverage.spans == [(0, 8)]


def test_a_mask_gives_way_to_the_whole() -> None:
    coverage = Coverage(8, full=False)
    coverage.add(Extent.of(0, [(4, 2)]))
    coverage.add(Extent.of(0, [(8, 1)]))
    assert coverage.mask is None
