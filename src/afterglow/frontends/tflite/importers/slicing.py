"""TFLite's slices."""

from __future__ import annotations

from collections.abc import Iterator

from afterglow.frontends.common.bounds import slice_bounds
from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Add, Max, Min
from afterglow.ops.indexing import Iota, ScatterND
from afterglow.ops.movement import Concat, Expand, Slice
from afterglow.ops.overwrite import Overwrite
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import i64

_BEYOND = 2**62
"""A bound that is beyond every extent."""


@tflite_op("SLICE", moves=True)
def slice_by_sizes(n: TfliteNode) -> Value:
    """From begins on, so many elements; -1 for all that there are."""
    x, begins, sizes = n[0], n.known_extents(1), n.known_extents(2)
    if not len(begins) == len(sizes) == x.type.rank:
        raise ModelError(f"a slice of {x.type} needs {x.type.rank} begins and sizes")
    rows = zip(x.type.shape, begins, sizes, strict=True)
    extents = tuple(extent - begin if size == -1 else size for extent, begin, size in rows)
    if x.type.shape == extents:
        return x
    return n.emit(Slice(begins, extents, (1,) * x.type.rank), x)


@dataclass(frozen=True)
class _Part:
    """What a strided slice does along an axis of x, or that there is a new one."""

    start: int = 0
    extent: int = 1
    step: int = 1
    is_new: bool = False
    is_dropped: bool = False


@tflite_op("STRIDED_SLICE", moves=True)
def strided_slice(n: TfliteNode) -> Value:
    """By begins, ends and strides, some of which masks override; axes may come and go."""
    x, parts = n[0], [*_parts(n)]
    old = [part for part in parts if not part.is_new]
    starts, extents, steps = (
        tuple(getattr(part, name) for part in old) for name in ("start", "extent", "step")
    )
    y = x
    if extents != x.type.shape or any(step != 1 for step in steps):
        y = n.emit(Slice(starts, extents, steps), x)
    return reshaped(n, y, [part.extent for part in parts if not part.is_dropped])


def _parts(n: TfliteNode) -> Iterator[_Part]:
    """What the slice does, axis by axis."""
    shape = n[0].type.shape
    begins, ends, strides = n.known_extents(1), n.known_extents(2), n.known_ints(3)
    if not len(begins) == len(ends) == len(strides):
        raise ModelError("begins, ends and strides must be equally many")
    new, ellipsis = n.count("new_axis_mask"), n.count("ellipsis_mask")
    if sum(_has(ellipsis, place) for place in range(len(begins))) > 1:
        raise ModelError("only one of its places can stand for all axes between")
    taken = sum(not (_has(new | ellipsis, place)) for place in range(len(begins)))
    axis = 0
    for place, each in enumerate(zip(begins, ends, strides, strict=True)):
        if _has(ellipsis, place):
            for _ in range(len(shape) - taken):
                yield _Part(extent=shape[axis])
                axis += 1
        elif _has(new, place):
            yield _Part(is_new=True)
        else:
            if axis >= len(shape):
                raise ModelError(f"{len(begins)} begins are too many for {n[0].type}")
            yield _part(n, place, shape[axis], *each)
            axis += 1
    for extent in shape[axis:]:
        yield _Part(extent=extent)


def _part(n: TfliteNode, place: int, extent: int, begin: int, end: int, step: int) -> _Part:
    """What it does along one axis of x."""
    if step == 0:
        raise ModelError("a stride of 0 leads nowhere")
    if n.flag("offset"):
        end = begin + end
    if _has(n.count("shrink_axis_mask"), place):
        first = begin + extent if begin < 0 else begin
        return _Part(first, is_dropped=True)
    if _has(n.count("begin_mask"), place):
        begin = 0 if step > 0 else _BEYOND
    if _has(n.count("end_mask"), place):
        end = _BEYOND if step > 0 else -_BEYOND
    start, count = slice_bounds(extent, begin, end, step)
    return _Part(start, count, step)


def _has(mask: int, place: int) -> bool:
    return bool(mask >> place & 1)


@tflite_op("DYNAMIC_UPDATE_SLICE", moves=True)
def dynamic_update_slice(n: TfliteNode) -> Value:
    """Operand 0 with a window replaced by operand 1, moved so that it lies inside."""
    x, update = n[0], n[1]
    if x.type.rank != update.type.rank:
        raise ModelError(f"{update.type} is no window of {x.type}")
    rooms = [e - u for e, u in zip(x.type.shape, update.type.shape, strict=True)]
    known = n.value_if_known(n[2])
    if n.extents(n[2], 1) != (x.type.rank,):
        raise ModelError(f"{x.type.rank} starts are needed, got {n[2].type}")
    if known is not None:
        starts = tuple(
            min(max(int(start), 0), room) for start, room in zip(known, rooms, strict=True)
        )
        return n.emit(Overwrite(starts), x, update)
    room = n.integers_of(rooms, (len(rooms),), n[2].type.dtype)
    zero = n.full(0, n[2].type.dtype)
    starts_value = n.emit(Min(), n.emit(Max(), n[2], zero), room)
    return n.emit(ScatterND(), x, _window_places(n, starts_value, update.type.shape), update)


def _window_places(n: TfliteNode, starts: Value, shape: tuple[int, ...]) -> Value:
    """The index tuples of all elements of a window that begins somewhere."""
    columns = []
    for axis in range(len(shape)):
        extents = tuple(e if axis == other else 1 for other, e in enumerate(shape))
        steps = n.emit(Iota(extents, axis, i64))
        columns.append(reshaped(n, n.emit(Expand(shape), steps), (*shape, 1)))
    steps = n.emit(Concat(len(shape)), *columns)
    return n.emit(Add(), steps, as_dtype(n, starts, i64))
