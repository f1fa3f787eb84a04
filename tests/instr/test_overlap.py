"""Where views lie relative to each other."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from afterglow.instr import Buffer, Region, row_major
from afterglow.instr.overlap import bytes_of, overlap, placed_inside, same_place
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, Extents, bind_extent, ranged, smaller_extent


def whole(*shape: int) -> Buffer:
    return Buffer("whole", TensorType(f32, shape), Region.ARENA)


def view(root: Buffer, shape: tuple[int, ...], start: int, strides: tuple[int, ...]) -> Buffer:
    type = TensorType(f32, shape)
    return Buffer("view", type, Region.ARENA, base=root, start=start, strides=strides)


@st.composite
def windows(draw: st.DrawFn, root: Buffer) -> Buffer:
    """A window of a buffer, with steps, perhaps with axes in another order."""
    starts, extents, steps = [], [], []
    for extent in root.type.shape:
        start, step = draw(st.integers(0, extent - 1)), draw(st.integers(1, 3))
        starts.append(start)
        steps.append(step)
        extents.append(draw(st.integers(1, (extent - 1 - start) // step + 1)))
    dense = row_major(root.type.shape)
    start = sum(i * s for i, s in zip(starts, dense, strict=True))
    order = draw(st.permutations(range(root.type.rank)))
    shape = tuple(extents[axis] for axis in order)
    return view(root, shape, start, tuple(dense[axis] * steps[axis] for axis in order))


def elements(buffer: Buffer) -> set[int]:
    flat = np.zeros(buffer.root.type.nbytes, np.bool_)
    bytes_of(buffer, flat)[...] = True
    return set(np.flatnonzero(flat).tolist())


@given(st.data())
def test_views_overlap_if_they_share_an_element(data: st.DataObject) -> None:
    root = whole(*data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    a, b = data.draw(windows(root)), data.draw(windows(root))
    assert overlap(a, b) == bool(elements(a) & elements(b))


@given(st.data())
def test_a_view_placed_inside_another_names_the_same_elements(data: st.DataObject) -> None:
    root = whole(*data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    container = data.draw(windows(root))
    part = whole(*container.type.shape)
    inner = data.draw(windows(part))
    layout = placed_inside(inner, container)
    if layout is None:
        return
    numbers = np.arange(root.type.size, dtype=np.float32)
    copied = np.ascontiguousarray(container.of(numbers)).reshape(-1)
    placed = view(root, inner.type.shape, *layout)
    np.testing.assert_array_equal(placed.of(numbers), inner.of(copied))


def test_views_of_a_scalar_overlap() -> None:
    root = whole()
    a, b = view(root, (1,), 0, (1,)), view(root, (1, 1), 0, (1, 1))
    assert overlap(a, b)
    assert same_place(a, b)


DIMS = (Dim("b", 1, 3), Dim("s", 1, 4))
B, S = map(ranged, DIMS)
RUNS = [{"b": b, "s": s} for b in (1, 2, 3) for s in (1, 2, 3, 4)]


@st.composite
def ranged_windows(draw: st.DrawFn, root: Buffer) -> Buffer:
    """A window of a ranged buffer: from the start, up to the end, or one index."""
    starts, extents = [], []
    for extent in root.type.shape:
        kind = draw(st.sampled_from(["all", "first", "last", "front"]))
        starts.append(extent - 1 if kind == "last" else 0)
        lengths = {"all": extent, "front": smaller_extent(extent, 2)}
        extents.append(lengths.get(kind, 1))
    dense = row_major(root.type.shape)
    start = sum(i * s for i, s in zip(starts, dense, strict=True))
    return view(root, tuple(extents), start, dense)


def bound(buffer: Buffer, root: Buffer, run: Extents) -> Buffer:
    """A view as it is in a run."""
    strides = tuple(bind_extent(n, run) for n in buffer.strides)
    return view(root, buffer.type.bind(run).shape, bind_extent(buffer.start, run), strides)


@settings(deadline=None)
@given(st.data())
def test_what_is_said_of_ranged_views_holds_in_every_run(data: st.DataObject) -> None:
    extents = st.sampled_from([2, S, B, S + 1, 2 * B])
    root = whole(*data.draw(st.lists(extents, min_size=1, max_size=3)))
    a, b = data.draw(ranged_windows(root)), data.draw(ranged_windows(root))
    apart, same = not overlap(a, b), same_place(a, b)
    for run in RUNS:
        exact = whole(*root.type.bind(run).shape)
        here = [elements(bound(each, exact, run)) for each in (a, b)]
        assert not (apart and here[0] & here[1])
        assert not same or here[0] == here[1]


def test_parts_of_a_ranged_buffer_that_meet_at_an_extent_do_not_overlap() -> None:
    root = whole(B, 2 * S)
    left, right = (view(root, (B, S), start, (2 * S, 1)) for start in (0, S))
    assert not overlap(left, right)
    assert overlap(left, view(root, (B, 1), S - 1, (2 * S, 1)))


def test_a_view_that_is_all_of_its_buffer_at_the_largest_extents_only_is_a_part_of_it() -> None:
    root = whole(B, 4)
    part = view(root, (B, S), 0, (4, 1))
    assert part.type.nbytes == root.type.nbytes
    assert not part.covers_root
    assert not same_place(part, view(root, (B, 4), 0, (4, 1)))
