"""Caffe2's operators that move elements."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op, flattened
from afterglow.frontends.common.conversion import as_dtype
from afterglow.graph import Value
from afterglow.ops.movement import Concat, Reshape, Slice, Tile, Transpose, slice_axis
from afterglow.ops.reduction import ReduceMean
from afterglow.ops.shuffle import ChannelShuffle
from afterglow.support.errors import ModelError
from afterglow.types import dtype as d

_SAME = (
    "Alias",
    "Copy",
    "CopyCPUToGPU",
    "CopyCPUToMKL",
    "CopyFromCPUInput",
    "CopyGPUToCPU",
    "CopyMKLToCPU",
    "EnsureCPUOutput",
    "EnsureDense",
    "ScaleGradient",
    "StopGradient",
)


@caffe2_op(*_SAME)
def same(n: Caffe2Node) -> Value:
    """What concerns devices or gradients only."""
    return n[0]


@caffe2_op("Free")
def free(n: Caffe2Node) -> tuple[Value, ...]:
    """What nothing reads any more."""
    return ()


@caffe2_op("Dropout")
def dropout(n: Caffe2Node) -> tuple[Value, ...]:
    """x: nothing is dropped outside of training; the mask holds for all."""
    if not n.flag("is_test"):
        n.graph.session.model.warn("Dropout is not in test mode: it drops nothing all the same")
    if not n.is_read(1):
        return (n[0],)
    return n[0], n.constant(np.ones(n[0].type.shape, np.bool_))


@caffe2_op("Reshape")
def reshape(n: Caffe2Node) -> tuple[Value, ...]:
    """0 keeps an extent, -1 is what is left; the old shape is a further result."""
    x = n[0]
    wanted = n.known_extents(1) if len(n) > 1 else n.integers("shape", ())
    old = x.type.shape
    if any(extent == 0 and axis >= len(old) for axis, extent in enumerate(wanted)):
        raise ModelError(f"{tuple(wanted)} does not fit x: {x.type}")
    shape = [old[axis] if extent == 0 else extent for axis, extent in enumerate(wanted)]
    if -1 in shape:
        known = 1
        for extent in shape:
            known = known * extent if extent != -1 else known
        total = x.type.size
        if shape.count(-1) > 1 or known == 0 or total % known != 0:
            raise ModelError(f"{tuple(wanted)} does not fit x: {x.type}")
        shape[shape.index(-1)] = total // known
    return n.emit(Reshape(tuple(shape)), x), n.integers_of(old, (len(old),))


@caffe2_op("Flatten")
def flatten(n: Caffe2Node) -> Value:
    """A matrix: the axes before one, and from it on."""
    x = n[0]
    axis = n.integer("axis", 1)
    axis = axis if axis == x.type.rank else n.axis(x)
    return n.emit(Reshape(flattened(n, x, axis)), x)


@caffe2_op("FlattenToVec")
def flatten_to_vector(n: Caffe2Node) -> Value:
    """All elements along one axis."""
    return n.emit(Reshape((n[0].type.size,)), n[0])


@caffe2_op("ResizeLike")
def resize_like(n: Caffe2Node) -> Value:
    """The same elements in the shape of the second operand."""
    return n.emit(Reshape(n[1].type.shape), n[0])


@caffe2_op("Squeeze")
def squeeze(n: Caffe2Node) -> Value:
    """Without some axes of extent 1."""
    x = n[0]
    axes = n.axes(x, "dims") or ()
    if any(x.type.shape[axis] != 1 for axis in axes):
        raise ModelError(f"axes {axes} must have the extent 1, x is {x.type}")
    kept = (extent for axis, extent in enumerate(x.type.shape) if axis not in axes)
    return n.emit(Reshape(tuple(kept)), x)


@caffe2_op("ExpandDims")
def expand_dims(n: Caffe2Node) -> Value:
    """With further axes of extent 1, at these places of the result."""
    x = n[0]
    dims = sorted(n.integers("dims"))
    shape = [*x.type.shape]
    for axis in dims:
        if not 0 <= axis <= len(shape):
            raise ModelError(f"attribute 'dims' is {tuple(dims)}, x is {x.type}")
        shape.insert(axis, 1)
    return n.emit(Reshape(tuple(shape)), x)


@caffe2_op("Transpose")
def transpose(n: Caffe2Node) -> Value:
    """Axes in another order, reversed by default."""
    rank = n[0].type.rank
    axes = n.integers("axes", tuple(reversed(range(rank))))
    if sorted(axes) != [*range(rank)]:
        raise ModelError(f"attribute 'axes' is {axes}, x is {n[0].type}")
    return n.emit(Transpose(axes), n[0])


@caffe2_op("NCHW2NHWC")
def channels_last(n: Caffe2Node) -> Value:
    """Channels behind."""
    rank = _image_rank(n)
    return n.emit(Transpose((0, *range(2, rank), 1)), n[0])


@caffe2_op("NHWC2NCHW")
def channels_first(n: Caffe2Node) -> Value:
    """Channels in front."""
    rank = _image_rank(n)
    return n.emit(Transpose((0, rank - 1, *range(1, rank - 1))), n[0])


def _image_rank(n: Caffe2Node) -> int:
    if n[0].type.rank < 2:
        raise ModelError(f"x must have 2 or more axes, it is {n[0].type}")
    return n[0].type.rank


@caffe2_op("Concat", "DepthConcat")
def concat(n: Caffe2Node) -> tuple[Value, ...]:
    """Along the channels by default, or along a new axis; extents of parts are a further result."""
    parts = n.values()
    if not parts:
        raise ModelError("it has no inputs")
    rank = parts[0].type.rank + n.flag("add_axis")
    default = 1 if not n.is_nhwc else rank - 1
    axis = n.integer("axis", default)
    if not -rank <= axis < rank:
        raise ModelError(f"attribute 'axis' is {axis}, inputs are {parts[0].type}")
    axis %= rank
    if n.flag("add_axis"):
        shape = parts[0].type.shape
        parts = [n.emit(Reshape((*shape[:axis], 1, *shape[axis:])), part) for part in parts]
    result = n.emit(Concat(axis), *parts)
    extents = [part.type.shape[axis] for part in parts]
    return result, n.integers_of(extents, (len(extents),), d.i32)


@caffe2_op("Split")
def split(n: Caffe2Node) -> list[Value]:
    """Into parts of given extents, or into equal ones."""
    x, count = n[0], len(n.proto.output)
    if not count:
        raise ModelError("it has no outputs")
    axis = n.axis(x, default=1 if not n.is_nhwc else x.type.rank - 1)
    extent = x.type.shape[axis]
    if len(n) > 1:
        extents = n.known_ints(1)
    elif n.has("split"):
        extents = n.integers("split")
    else:
        if extent % count != 0:
            raise ModelError(f"x cannot be split into {count} equal parts: it is {x.type}")
        extents = (extent // count,) * count
    if len(extents) != count or sum(extents) != extent or min(extents) < 0:
        raise ModelError(f"x cannot be split into {tuple(extents)}: it is {x.type}")
    starts = [sum(extents[:index]) for index in range(count)]
    pairs = zip(starts, extents, strict=True)
    return [n.emit(slice_axis(x.type, axis, start, size), x) for start, size in pairs]


@caffe2_op("Slice")
def slice_op(n: Caffe2Node) -> Value:
    """From starts to ends; a negative end counts from behind, -1 being behind the last."""
    x, shape = n[0], n[0].type.shape
    if len(n) > 1:
        starts, ends = n.known_ints(1), n.known_ints(2)
    else:
        starts, ends = n.integers("starts"), n.integers("ends")
    if len(starts) != len(ends) or len(starts) > len(shape):
        raise ModelError(f"from {starts} to {ends} does not fit x: {x.type}")
    missing = len(shape) - len(starts)
    rows = zip((*starts, *(0,) * missing), (*ends, *(-1,) * missing), shape, strict=True)
    pairs = [_bounds(start, end, extent) for start, end, extent in rows]
    op = Slice(
        tuple(start for start, _ in pairs),
        tuple(max(0, end - start) for start, end in pairs),
        (1,) * len(shape),
    )
    return n.emit(op, x)


def _bounds(start: int, end: int, extent: int) -> tuple[int, int]:
    first = start + extent + 1 if start < 0 else start
    last = extent if end == -1 else end + extent + 1 if end < 0 else end
    return min(max(first, 0), extent), min(max(last, 0), extent)


@caffe2_op("Tile")
def tile(n: Caffe2Node) -> Value:
    """Repeated along an axis."""
    x = n[0]
    tiles = n.known_int(1) if len(n) > 1 else n.integer("tiles", 1)
    axis = (n.known_int(2) if len(n) > 2 else n.integer("axis", 0)) if x.type.rank else 0
    if tiles < 1 or not -x.type.rank <= axis < x.type.rank:
        raise ModelError(f"x cannot be repeated {tiles} times along axis {axis}: it is {x.type}")
    repeats = [1] * x.type.rank
    repeats[axis] = tiles
    return n.emit(Tile(tuple(repeats)), x)


@caffe2_op("ChannelShuffle")
def channel_shuffle(n: Caffe2Node) -> Value:
    """Channels interleaved by group."""
    return n.emit(ChannelShuffle(n.integer("group", 1), n.channel_axis), n[0])


@caffe2_op("Shape")
def shape_of(n: Caffe2Node) -> Value:
    """The extents of all axes, or of some."""
    extents = n[0].type.shape
    axes = n.axes(n[0], "axes")
    chosen = extents if axes is None else [extents[axis] for axis in n.integers("axes")]
    return n.integers_of(chosen, (len(chosen),))


@caffe2_op("Size")
def size_of(n: Caffe2Node) -> Value:
    """The number of elements."""
    return n.integers_of((n[0].type.size,), ())


@caffe2_op("AveragedLoss")
def averaged_loss(n: Caffe2Node) -> Value:
    """The mean of all elements."""
    from_all = tuple(range(n[0].type.rank))
    return n.emit(ReduceMean(from_all, False), as_dtype(n, n[0], d.f32))
