"""Where views lie relative to each other: sameness, overlap, and views inside views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from afterglow.instr.buffer import Buffer, row_major
from afterglow.types import Array
from afterglow.types.extent import (
    at_least,
    is_ranged,
    larger_extent,
    largest,
    smaller_extent,
    smallest,
)


def same_place(a: Buffer, b: Buffer) -> bool:
    """Whether both are the very same elements, in the same order."""
    if a is b:
        return True
    if a.root is not b.root or a.start != b.start or _byte_count(a) != _byte_count(b):
        return False
    return (a.is_dense and b.is_dense) or (a.type.shape == b.type.shape and a.strides == b.strides)


def overlap(a: Buffer, b: Buffer) -> bool:
    """Whether some element belongs to both; of ranged ones, whether that cannot be ruled out."""
    if a.root is not b.root or not a.type.nbytes or not b.type.nbytes:
        return False
    (low, high), (other_low, other_high) = byte_span(a), byte_span(b)
    if at_least(low, other_high) or at_least(other_low, high):
        return False
    box, other = _box(a), _box(b)
    if box is not None and other is not None:
        sides = zip(box, other, strict=True)
        return not any(at_least(p, s) or at_least(r, q) for (p, q), (r, s) in sides)
    if is_ranged_place(a) or is_ranged_place(b):
        return True
    taken = np.zeros(a.root.type.nbytes, np.bool_)
    bytes_of(a, taken)[...] = True
    return bool(bytes_of(b, taken).any())


def byte_span(view: Buffer) -> tuple[int, int]:
    """The first byte of its root that a view may touch, and one past the last."""
    size = view.type.dtype.itemsize
    if not view.type.nbytes:
        return view.start * size, view.start * size
    ends = [(n - 1) * s for n, s in zip(view.type.shape, view.strides, strict=True)]
    low = view.start + sum(smaller_extent(end, 0) for end in ends)
    high = view.start + sum(larger_extent(end, 0) for end in ends) + 1
    return low * size, high * size


def is_ranged_place(view: Buffer) -> bool:
    """Whether which bytes of its root a view takes depends on extents."""
    return any(map(is_ranged, (*view.type.shape, view.start, *view.strides)))


def _byte_count(view: Buffer) -> int:
    return view.type.size * view.type.dtype.itemsize


def bytes_of(view: Buffer, flat: Array) -> Array:
    """The bytes of a view in a flat array with one element for each byte of its root."""
    size = view.type.dtype.itemsize
    strides = (*(stride * size for stride in view.strides), 1)
    start = flat[view.start * size :]
    return np.lib.stride_tricks.as_strided(start, (*view.type.shape, size), strides)


def _box(view: Buffer) -> list[tuple[int, int]] | None:
    """For each axis of the root the first index and one past the last, if it takes all between."""
    if view.type.dtype.itemsize != view.root.type.dtype.itemsize:
        return None
    steps = axis_steps(view.type.shape, view.start, view.strides, view.root.type.shape)
    if steps is None or any(largest(step) > 1 for _, step in steps[1]):
        return None
    starts, moves = steps
    ends = list(starts)
    for extent, (axis, step) in zip(view.type.shape, moves, strict=True):
        if step:
            ends[axis] += (extent - 1) * step
    return [(start, end + 1) for start, end in zip(starts, ends, strict=True)]


def axis_steps(
    view_shape: Sequence[int], start: int, strides: Sequence[int], shape: Sequence[int]
) -> tuple[list[int], list[tuple[int, int]]] | None:
    """A view of a row-major tensor as steps along that tensor's axes, if it is that.

    Returns the coordinates of its first element, and for each axis of the view the axis of the
    tensor that it runs along and its step there. None if some axis would wrap around.
    """
    if not shape:
        return [], [(0, 0)] * len(view_shape) if view_shape else []
    dense = row_major(shape)
    starts, rest = [], start
    for unit in dense:
        if is_ranged(unit) and smallest(unit) <= 0:
            return None
        index, rest = divmod(rest, unit) if unit else (0, rest)
        starts.append(index)
    reach = list(starts)
    moves = []
    for extent, stride in zip(view_shape, strides, strict=True):
        axis = _axis_of(extent, stride, dense)
        if axis is None:
            return None
        step = stride // dense[axis] if largest(extent) > 1 else 0
        reach[axis] += (extent - 1) * step
        moves.append((axis, step))
    if not all(at_least(extent - 1, end) for end, extent in zip(reach, shape, strict=True)):
        return None
    return starts, moves


def _axis_of(extent: int, stride: int, dense: Sequence[int]) -> int | None:
    if extent == 1:
        return 0
    if smallest(stride) <= 0:
        return None
    return next((a for a, unit in enumerate(dense) if unit and stride % unit == 0), None)


def placed_inside(view: Buffer, container: Buffer) -> tuple[int, tuple[int, ...]] | None:
    """Start and strides of `view` once its root's elements lie where `container` says.

    None if they then do not lie at regular distances.
    """
    if container.is_dense:
        return container.start + view.start, view.strides
    if view.root.type.shape != container.type.shape:
        return None
    steps = axis_steps(view.type.shape, view.start, view.strides, container.type.shape)
    if steps is None:
        return None
    starts, moves = steps
    start = container.start + sum(
        index * stride for index, stride in zip(starts, container.strides, strict=True)
    )
    return start, tuple(container.strides[axis] * step for axis, step in moves)


def slabs_around(
    outer: Sequence[int], starts: Sequence[int], inner: Sequence[int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Starts and extents of windows that, with the inner one, cover a tensor, each place once."""
    first, extents = [0] * len(outer), list(outer)
    for axis, (begin, extent) in enumerate(zip(starts, inner, strict=True)):
        end = begin + extent
        for start, count in ((0, begin), (end, outer[axis] - end)):
            if largest(count) > 0:
                yield _with(first, axis, start), _with(extents, axis, count)
        first[axis], extents[axis] = begin, extent


def _with(values: Sequence[int], index: int, value: int) -> list[int]:
    return [value if place == index else old for place, old in enumerate(values)]
