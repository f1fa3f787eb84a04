"""Extents are read off the shapes of inputs, and refused before anything runs."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.runtime.extents import ExtentReader, ShapeRange, has_ranges
from afterglow.support.errors import UsageError
from afterglow.types.extent import Dim, Extents, ranged

S, B = ranged(Dim("s", 1, 64)), ranged(Dim("b", 2, 8, 2))
READER = ExtentReader(["x", "y"], [(B, S + 1, 3), (2 * S,)])


def read(reader: ExtentReader, *shapes: tuple[int, ...]) -> Extents:
    return reader.read([np.zeros(shape, bool) for shape in shapes], {})


def test_extents_are_solved_from_sums_and_multiples() -> None:
    reader = ExtentReader(["x", "y"], [(B + S, 3), (2 * S,)])
    assert read(reader, (11, 3), (14,)) == {"b": 4, "s": 7}


def test_extents_are_in_the_order_of_dimensions() -> None:
    assert [*read(READER, (4, 8, 3), (14,))] == [dim.name for dim in READER.dims] == ["b", "s"]


def test_shapes_seen_before_give_the_same_extents() -> None:
    assert read(READER, (4, 8, 3), (14,)) is read(READER, (4, 8, 3), (14,))


def test_only_arrays_with_ranged_axes_tell_extents_apart() -> None:
    reader = ExtentReader(["x", "y"], [(3,), (S, 2)])
    assert read(reader, (3,), (5, 2)) is read(reader, (3,), (5, 2))
    assert read(reader, (3,), (6, 2)) == {"s": 6}


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((4, 66, 3), (130,)), "dimension 's' of input 'x' is 65, out of its bounds 1..64"),
        (((10, 8, 3), (14,)), "dimension 'b' of input 'x' is 10, out of its bounds 2..8 by 2"),
        (((3, 8, 3), (14,)), "dimension 'b' of input 'x' is 3, out of its bounds 2..8 by 2"),
        (((4, 8, 3), (16,)), "axis 0 of input 'y' has 16 elements, but 2*s is 14 with s = 7"),
    ],
)
def test_what_contradicts_bounds_or_other_inputs_is_refused(shapes, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(READER, *shapes)
    assert caught.value.what == message


def test_an_error_says_which_axes_a_dimension_has_several_extents_in() -> None:
    with pytest.raises(UsageError) as caught:
        read(ExtentReader(["x", "y"], [(3, S), (S,)]), (3, 8), (9,))
    assert caught.value.what == (
        "dimension 's' is 9 in axis 0 of input 'y', but 8 in axis 1 of input 'x'"
    )


def test_a_dimension_must_follow_from_the_inputs() -> None:
    with pytest.raises(UsageError, match="the inputs do not tell the extent of dimension 'b'"):
        read(ExtentReader(["x"], [(S * B,)]), (12,))


def test_a_range_covers_shapes_within_its_bounds() -> None:
    covered = ShapeRange(((B, S), None, (S, 3)))
    assert covered.covers(((4, 9), None, (9, 3)))
    for other in (
        ((4, 9), None, (9, 2)),  # another exact extent
        ((4, 9), None, (8, 3)),  # two extents of one dimension
        ((4, 65), None, (65, 3)),  # beyond the bounds
        ((4, 9), (1,), (9, 3)),  # an array where there is none
        ((4, 9, 1), None, (9, 3)),  # another rank
        ((4, 9), None),
    ):
        assert not covered.covers(other)


def test_wider_bounds_include_narrower_ones() -> None:
    def at(low: int, high: int, step: int = 1, name: str = "s") -> ShapeRange:
        return ShapeRange(((ranged(Dim(name, low, high, step)), 3),))

    assert at(1, 64).includes(at(2, 32))
    assert at(0, 64, 2).includes(at(4, 32, 4))
    assert not at(1, 64).includes(at(1, 65))
    assert not at(0, 64, 2).includes(at(1, 32))
    assert not at(1, 64).includes(at(1, 64, name="t"))


def test_only_expressions_are_ranges() -> None:
    assert has_ranges(((1, S), None))
    assert not has_ranges(((1, 2), None))
