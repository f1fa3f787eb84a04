"""Ops that move elements."""

from __future__ import annotations

import numpy as np

from afterglow.exporters.onnx.file import tensor_of
from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports, images
from afterglow.graph import Node
from afterglow.ops.extents import Extents
from afterglow.ops.fill import Fill
from afterglow.ops.movement import Concat, Expand, Pad, PadMode, Reshape, Slice, Tile
from afterglow.ops.shuffle import ChannelShuffle, DepthToSpace, ShuffleMode, SpaceToDepth
from afterglow.types.dtype import i64
from afterglow.types.extent import is_ranged

TO_THE_END = np.iinfo(np.int64).max
BEFORE_THE_START = np.iinfo(np.int64).min


@exports(Reshape)
def reshape(n: NodeWriter) -> str:
    """The shape is an operand; one extent that is not known follows from the others."""
    x = n.value(0)
    assert x is not None
    shape = n.op.shape
    if sum(map(is_ranged, shape)) == 1 and 0 not in shape:
        shape = tuple(-1 if is_ranged(extent) else extent for extent in shape)
    return n.reshape(n.values.in_order(x), *shape)


@exports(Expand)
def expand(n: NodeWriter) -> str:
    """The shape is an operand."""
    return n.emit("Expand", n.operand(0), n.integers(*n.op.shape))


@exports(Concat)
def concat(n: NodeWriter) -> str:
    """Along an axis."""
    return n.emit("Concat", *n.operands, axis=n.op.axis)


@exports(Tile)
def tile(n: NodeWriter) -> str:
    """The repeats are an operand."""
    return n.emit("Tile", n.operand(0), n.integers(*n.op.repeats))


@exports(Slice)
def slice_(n: NodeWriter) -> str:
    """Starts, ends, axes and steps of the axes that are cut."""
    layout = n.layout or tuple(range(n.type(0).rank))
    shape = [n.type(0).shape[axis] for axis in layout]
    cuts = [
        (axis, start, _end(start, extent, step, shape[axis]), step)
        for axis, (start, extent, step) in enumerate(
            zip(n.op.starts, n.op.extents, n.op.steps, strict=True)
        )
        if (start, extent, step) != (0, shape[axis], 1)
    ]
    axes, starts, ends, steps = zip(*cuts, strict=True) if cuts else ((), (), (), ())
    given = (n.integers(*numbers) for numbers in (starts, ends, axes, steps))
    return n.emit("Slice", n.operand(0), *given)


def _end(start: int, extent: int, step: int, whole: int) -> int:
    """Where a slice ends, as ONNX counts: negative numbers would count from the end."""
    end = start + extent * step
    if step > 0:
        return TO_THE_END if step == 1 and end == whole else end
    return end if end >= 0 else BEFORE_THE_START


@exports(Pad)
def pad(n: NodeWriter) -> str:
    """The counts are an operand, begins then ends."""
    mode = None if n.op.mode is PadMode.CONSTANT else n.op.mode.value
    value = n.operand(1, ()) if n.value(1) is not None else ""
    return n.emit("Pad", n.operand(0), n.integers(*n.op.before, *n.op.after), value, mode=mode)


@exports(Fill)
def fill(n: NodeWriter) -> str:
    """One number everywhere."""
    value = tensor_of(np.array([n.op.value], n.op.dtype.numpy), "value")
    return n.emit("ConstantOfShape", n.integers(*n.op.shape), value=value)


@exports(Extents)
def extents(n: NodeWriter) -> str:
    """What the shapes of inputs tell."""
    listed = n.integers(*n.op.values)
    shaped = n.reshape(listed, *n.op.shape)
    return n.as_type(shaped, i64, n.op.dtype)


@exports(DepthToSpace, layout=images)
def depth_to_space(n: NodeWriter) -> str:
    """Channels to blocks of places."""
    return n.emit("DepthToSpace", n.operand(0), blocksize=n.op.block, mode=n.op.mode.name)


def _is_depth_first(node: Node) -> bool:
    return isinstance(node.op, SpaceToDepth) and node.op.mode is ShuffleMode.DCR


@exports(SpaceToDepth, layout=images, accepts=_is_depth_first)
def space_to_depth(n: NodeWriter) -> str:
    """Blocks of places to channels."""
    return n.emit("SpaceToDepth", n.operand(0), blocksize=n.op.block)


@exports(ChannelShuffle)
def channel_shuffle(n: NodeWriter) -> str:
    """Three nodes: split the channels, swap the parts, join them."""
    layout = n.layout or tuple(range(n.type(0).rank))
    split, perm, joined = n.op.steps(tuple(n.type(0).shape[axis] for axis in layout))
    parts = n.reshape(n.operand(0), *split)
    return n.reshape(n.emit("Transpose", parts, perm=perm), *joined)
