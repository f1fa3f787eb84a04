"""Where views lie relative to each other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from afterglow.instr import Buffer, Region, row_major
from afterglow.instr.overlap import bytes_of, overlap, placed_inside, same_place
from afterglow.types import TensorType
from afterglow.types.dtype import f32


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
