"""Rows: where the elements of a buffer lie, against NumPy."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from afterglow.backends.broadcast import merge_alike, own_axis, strides_within
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.instr import Buffer, Region
from afterglow.ops.activation import Relu
from afterglow.types import TensorType
from afterglow.types.dtype import f32

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Where each element lies, as NumPy counts."""
    grid = np.indices(shape) if shape else np.zeros((0,))
    return sum((i * s for i, s in zip(grid, strides, strict=True)), np.zeros(shape, int))


@st.composite
def buffers_within(draw: st.DrawFn) -> tuple[Buffer, tuple[int, ...]]:
    """A shape, and a buffer of fewer or shorter axes that is broadcast to it; it may have gaps."""
    shape = draw(shapes)
    rank = draw(st.integers(0, len(shape)))
    extents = [draw(st.sampled_from([1, n])) for n in shape[len(shape) - rank :]]
    strides, step = [], 1
    for extent in reversed(extents):
        strides.insert(0, step)
        step = step * extent + draw(st.integers(0, 3))
    whole = Buffer("whole", TensorType(f32, (step,)), Region.ARENA)
    type = TensorType(f32, tuple(extents))
    return Buffer("part", type, Region.ARENA, base=whole, strides=strides), shape


@given(buffers_within())
def test_strides_of_what_is_broadcast(made: tuple[Buffer, tuple[int, ...]]) -> None:
    buffer, shape = made
    places = offsets(buffer.type.shape, buffer.strides)
    got = offsets(shape, strides_within(buffer, shape))
    np.testing.assert_array_equal(got, np.broadcast_to(places, shape))


@given(shapes, st.integers(0, 3))
def test_a_vector_may_run_along_any_axis(shape: tuple[int, ...], axis: int) -> None:
    axis %= len(shape)
    vector = Buffer("v", TensorType(f32, (shape[axis],)), Region.ARENA)
    places = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    for number in (axis, axis - len(shape)):
        got = offsets(shape, strides_within(vector, shape, number))
        np.testing.assert_array_equal(got, np.broadcast_to(places, shape))


@given(buffers_within())
def test_merged_axes_describe_the_same_elements(made: tuple[Buffer, tuple[int, ...]]) -> None:
    buffer, shape = made
    strides = strides_within(buffer, shape)
    axes = Axes.merged(shape, strides)
    wanted = offsets(shape, strides).reshape(-1).tolist()
    assert [axes.offset(place) for place in range(math.prod(shape))] == wanted
    assert len(axes.extents) <= sum(n != 1 for n in shape)


def test_axes_that_one_stride_walks_through_become_one() -> None:
    assert Axes.merged((2, 3, 4), (12, 4, 1)) == Axes((24,), (1,))
    assert Axes.merged((2, 3, 4), (24, 8, 1)) == Axes((6, 4), (8, 1))
    assert Axes.merged((2, 3, 4), (0, 0, 1)) == Axes((6, 4), (0, 1))
    assert Axes.merged((1, 1), (7, 7)) == Axes((), ())
    assert Axes.merged((), ()).offset(0) == 0


@given(shapes, st.lists(st.booleans(), min_size=3, max_size=3), st.data())
def test_several_buffers_are_merged_alike(
    shape: tuple[int, ...], gaps: list[bool], data: st.DataObject
) -> None:
    given_strides = []
    for has_gaps in gaps:
        strides, step = [], 1
        for extent in reversed(shape):
            strides.insert(0, step if data.draw(st.booleans()) else 0)
            step = step * extent + has_gaps
        given_strides.append(tuple(strides))
    extents, merged = merge_alike(shape, given_strides)
    assert math.prod(extents) == math.prod(shape)
    for before, after in zip(given_strides, merged, strict=True):
        want, got = offsets(shape, before).reshape(-1), offsets(extents, after).reshape(-1)
        np.testing.assert_array_equal(got, want)


def test_places_are_split_as_divmod_does() -> None:
    assert split(17, 5) == (3, 2)


def test_only_some_operands_have_an_axis_of_their_own() -> None:
    assert own_axis(Relu(), "x") is None
