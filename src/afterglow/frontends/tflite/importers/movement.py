"""TFLite's ops that move elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.frontends.common.bounds import extent_left
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.importers.activation import activated
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import INTERNAL, tflite_op
from afterglow.graph import Value
from afterglow.ops.movement import Concat, Expand, Pad, PadMode, Slice, Tile, Transpose, slice_axis
from afterglow.ops.rules import broadcast_shape
from afterglow.support.errors import ModelError
from afterglow.types import TensorType


@tflite_op("IDENTITY", domain=INTERNAL, moves=True)
def identity(n: TfliteNode) -> Value:
    """Another name."""
    return n[0]


@tflite_op("RESHAPE", moves=True)
def reshape(n: TfliteNode) -> Value:
    """The shape is an operand, or an option of old files; -1 stands for what is left."""
    x = n[0]
    is_operand = n.get(1) is not None and n[1].type.rank == 1
    wanted = list(n.known_extents(1) if is_operand else n.integers("new_shape", ()))
    if wanted.count(-1) > 1 or any(extent < -1 for extent in wanted):
        raise ModelError(f"{x.type} cannot be given the shape {wanted}")
    if -1 in wanted:
        rest = math.prod(extent for extent in wanted if extent != -1)
        wanted[wanted.index(-1)] = extent_left(x.type, rest)
    return reshaped(n, x, wanted)


@tflite_op("SQUEEZE", moves=True)
def squeeze(n: TfliteNode) -> Value:
    """Drop axes of extent 1: those that the options list, or all."""
    shape = n[0].type.shape
    listed = {n.axis(axis, len(shape)) for axis in n.integers("squeeze_dims", ())}
    dropped = listed or {axis for axis, extent in enumerate(shape) if extent == 1}
    if any(shape[axis] != 1 for axis in dropped):
        raise ModelError(f"axes {sorted(dropped)} of {n[0].type} are not all of extent 1")
    return reshaped(n, n[0], [e for axis, e in enumerate(shape) if axis not in dropped])


@tflite_op("EXPAND_DIMS", moves=True)
def expand_dims(n: TfliteNode) -> Value:
    """An axis of extent 1 at a place in the result."""
    shape = n[0].type.shape
    axis = n.axis(n.known_int(1), len(shape) + 1)
    return reshaped(n, n[0], (*shape[:axis], 1, *shape[axis:]))


@tflite_op("SHAPE", moves=True)
def shape(n: TfliteNode) -> Value:
    """The extents."""
    extents = n[0].type.shape
    return n.integers_of(extents, (len(extents),), n.result_type())


@tflite_op("RANK", moves=True)
def rank(n: TfliteNode) -> Value:
    """The number of axes."""
    return n.full(n[0].type.rank, n.result_type())


@tflite_op("TRANSPOSE", moves=True)
def transpose(n: TfliteNode) -> Value:
    """By an operand."""
    rank = n[0].type.rank
    perm = tuple(n.axis(axis, rank) for axis in n.known_ints(1))
    return n.emit(Transpose(perm), n[0])


@tflite_op("CONCATENATION", moves=True)
def concatenation(n: TfliteNode) -> Value:
    """Along an axis; an activation function may be fused."""
    axis = n.axis(n.count("axis"), n[0].type.rank)
    return activated(n, n.emit(Concat(axis), *n.values()))


@tflite_op("PACK", moves=True)
def pack(n: TfliteNode) -> Value:
    """Operands side by side along a new axis."""
    shape = n[0].type.shape
    axis = n.axis(n.count("axis"), len(shape) + 1)
    apart = [reshaped(n, x, (*shape[:axis], 1, *shape[axis:])) for x in n.values()]
    return n.emit(Concat(axis), *apart)


@tflite_op("UNPACK", moves=True)
def unpack(n: TfliteNode) -> list[Value]:
    """One result for each index along an axis, without it."""
    x = n[0]
    axis = n.axis(n.count("axis"), x.type.rank)
    count = n.count("num")
    if x.type.shape[axis] != count:
        raise ModelError(f"{x.type} has not {count} elements along axis {axis}")
    shape = (*x.type.shape[:axis], *x.type.shape[axis + 1 :])
    parts = (n.emit(slice_axis(x.type, axis, index, 1), x) for index in range(count))
    return [reshaped(n, part, shape) for part in parts]


@tflite_op("SPLIT", moves=True)
def split(n: TfliteNode) -> list[Value]:
    """Equal parts along an axis; operand 0 is the axis."""
    x, count = n[1], n.count("num_splits")
    axis = n.axis(n.known_int(0), x.type.rank)
    if count < 1 or x.type.shape[axis] % count:
        raise ModelError(f"axis {axis} of {x.type} cannot be split into {count} equal parts")
    return _split(n, x, axis, [x.type.shape[axis] // count] * count)


@tflite_op("SPLIT_V", moves=True)
def split_v(n: TfliteNode) -> list[Value]:
    """Parts of given lengths, of which one may be -1 for what is left."""
    x, lengths = n[0], [*n.known_extents(1)]
    axis = n.axis(n.known_int(2), x.type.rank)
    if lengths.count(-1) == 1:
        lengths[lengths.index(-1)] = x.type.shape[axis] - sum(e for e in lengths if e != -1)
    if any(length < 0 for length in lengths) or sum(lengths) != x.type.shape[axis]:
        raise ModelError(f"axis {axis} of {x.type} cannot be split into {lengths}")
    return _split(n, x, axis, lengths)


def _split(n: TfliteNode, x: Value, axis: int, lengths: Sequence[int]) -> list[Value]:
    start, parts = 0, []
    for length in lengths:
        parts.append(n.emit(slice_axis(x.type, axis, start, length), x))
        start = start + length
    return parts


@tflite_op("TILE", moves=True)
def tile(n: TfliteNode) -> Value:
    """One count an axis."""
    return n.emit(Tile(n.known_extents(1)), n[0])


@tflite_op("BROADCAST_TO", moves=True)
def broadcast_to(n: TfliteNode) -> Value:
    """To a shape that is an operand."""
    return n.emit(Expand(n.known_extents(1)), n[0])


@tflite_op("BROADCAST_ARGS", moves=True)
def broadcast_args(n: TfliteNode) -> Value:
    """The shape to which two shapes broadcast."""
    dtype = n[0].type.dtype
    shapes = [n.known_extents(index) for index in (0, 1)]
    if any(extent < 0 for shape in shapes for extent in shape):
        raise ModelError(f"shapes have no negative extents, got {shapes}")
    lhs, rhs = (TensorType(dtype, shape) for shape in shapes)
    found = broadcast_shape(lhs=lhs, rhs=rhs)
    return n.integers_of(found, (len(found),), dtype)


@tflite_op("PAD")
def pad(n: TfliteNode) -> Value:
    """With zeros."""
    return padded(n, None)


@tflite_op("PADV2")
def pad_v2(n: TfliteNode) -> Value:
    """With a number that is an operand."""
    return padded(n, reshaped(n, n[2], ()))


def padded(n: TfliteNode, value: Value | None) -> Value:
    """Operand 0 with so much around it as operand 1 says."""
    before, after = pad_extents(n)
    if not any(map(_is_some, (*before, *after))):
        return n[0]
    return n.emit(Pad(before, after), n[0], value)


def _is_some(count: int) -> bool:
    return not isinstance(count, int) or count != 0


def pad_extents(n: TfliteNode) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What operand 1 says is to be put before and after each axis."""
    pads = n.known_extents(1)
    if len(pads) != 2 * n[0].type.rank or any(count < 0 for count in pads):
        raise ModelError(f"pads {pads} do not fit x: {n[0].type}")
    return pads[::2], pads[1::2]


@tflite_op("MIRROR_PAD", moves=True)
def mirror_pad(n: TfliteNode) -> Value:
    """With what is mirrored at the border: without the outermost elements, or with them."""
    x, (before, after) = n[0], pad_extents(n)
    if n.word("mode", "REFLECT") == "REFLECT":
        return n.emit(Pad(before, after, PadMode.REFLECT), x)
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        extent = x.type.shape[axis]
        if max(first, last) > extent:
            raise ModelError(f"pads {before} and {after} are more than {x.type} has")
        parts = [x]
        if first:
            parts.insert(0, n.emit(slice_axis(x.type, axis, first - 1, first, -1), x))
        if last:
            parts.append(n.emit(slice_axis(x.type, axis, extent - 1, last, -1), x))
        x = n.emit(Concat(axis), *parts) if len(parts) > 1 else x
    return x


@tflite_op("REVERSE_V2", moves=True)
def reverse(n: TfliteNode) -> Value:
    """Along axes."""
    x = n[0]
    for axis in n.axes(1, x.type.rank):
        extent = x.type.shape[axis]
        if extent:
            x = n.emit(slice_axis(x.type, axis, extent - 1, extent, -1), x)
    return x


@tflite_op("FILL", moves=True)
def fill(n: TfliteNode) -> Value:
    """One number in all places of a shape."""
    return n.emit(Expand(n.known_extents(0)), reshaped(n, n[1], ()))


@tflite_op("ZEROS_LIKE", moves=True)
def zeros_like(n: TfliteNode) -> Value:
    """Zeros in the shape of the operand."""
    return n.emit(Expand(n[0].type.shape), n.full(0, n[0].type.dtype))


@tflite_op("DILATE", moves=True)
def dilate(n: TfliteNode) -> Value:
    """With copies of a number between the elements of each axis."""
    x, value = n[0], reshaped(n, n[2], ())
    for axis, factor in enumerate(n.known_ints(1)):
        extents = x.type.shape
        if factor < 1 or axis >= len(extents):
            raise ModelError(f"{n[0].type} cannot be dilated by {n.known_ints(1)}")
        if factor == 1 or not extents[axis]:
            continue
        apart = reshaped(n, x, (*extents[: axis + 1], 1, *extents[axis + 1 :]))
        none = [0] * len(extents)
        after = (*none[: axis + 1], factor - 1, *none[axis + 1 :])
        wide = n.emit(Pad((0,) * len(after), after), apart, value)
        joined = reshaped(n, wide, (*extents[:axis], extents[axis] * factor, *extents[axis + 1 :]))
        x = n.emit(slice_axis(joined.type, axis, 0, (extents[axis] - 1) * factor + 1), joined)
    return x


@tflite_op("STABLEHLO_CONCATENATE", moves=True)
def stablehlo_concatenate(n: TfliteNode) -> Value:
    """Along an axis."""
    return n.emit(Concat(n.axis(n.count("dimension"), n[0].type.rank)), *n.values())


@tflite_op("STABLEHLO_TRANSPOSE", moves=True)
def stablehlo_transpose(n: TfliteNode) -> Value:
    """By an option."""
    return n.emit(Transpose(n.integers("permutation", ())), n[0])


@tflite_op("STABLEHLO_SLICE", moves=True)
def stablehlo_slice(n: TfliteNode) -> Value:
    """By starts, limits and strides, one each an axis."""
    names = ("start_indices", "limit_indices", "strides")
    starts, limits, steps = (n.integers(name, ()) for name in names)
    rank = n[0].type.rank
    if not len(starts) == len(limits) == len(steps) == rank or any(step < 1 for step in steps):
        raise ModelError(f"a slice of {n[0].type} needs {rank} starts, limits and strides")
    extents = np.maximum(0, -(-(np.array(limits) - starts) // np.array(steps))).tolist()
    return n.emit(Slice(starts, tuple(extents), steps), n[0])
