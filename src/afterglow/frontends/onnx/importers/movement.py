"""ONNX's ops that move elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.frontends.common.bounds import extent_left, slice_bounds
from afterglow.frontends.common.data_lengths import (
    may_have_data_lengths,
    slice_bounds_by_data,
    slice_by_data,
)
from afterglow.frontends.common.grown import concat_parts, first_rows_of_body
from afterglow.frontends.common.movement import padded, reshaped, split_along
from afterglow.frontends.common.moving import moving_windows
from afterglow.frontends.definition.context import GrownTensor, Imported, NodeContext
from afterglow.frontends.definition.symbolic import whole
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.movement import (
    Concat,
    Expand,
    PadMode,
    Reshape,
    Slice,
    Tile,
    Transpose,
)
from afterglow.ops.rules import broadcast_shape, normal_axes, normal_axis
from afterglow.support.errors import ModelError, TypeRuleError
from afterglow.types.extent import (
    UndecidedExtentError,
    is_ranged,
    undecided,
)

_PAD_MODES = {mode.value: mode for mode in PadMode}


def axes_of(n: NodeContext, index: int) -> tuple[int, ...] | None:
    """Axes as they are written: an attribute before some version, input `index` from then on."""
    if n.has("axes"):
        return n.integers("axes")
    return n.known_ints(index) if n.get(index) is not None else None


@onnx_op("Identity")
def identity(n: NodeContext) -> Sequence[Imported | None]:
    """Nothing: sequences pass too."""
    return n.operands[:1]


@onnx_op("Shape")
def shape(n: NodeContext) -> Value:
    """The extents, or those from `start` to `end`: known when compiling."""
    end = n.integer("end") if n.has("end") else None
    extents = n[0].type.shape[n.integer("start", 0) : end]
    return n.integers_of(extents, (len(extents),))


@onnx_op("Size")
def size(n: NodeContext) -> Value:
    """The number of elements: known when compiling."""
    return n.integers_of((n[0].type.size,), ())


@onnx_op("Reshape")
def reshape(n: NodeContext) -> Value:
    """0 keeps an extent, unless it is allowed to mean 0; -1 stands for what is left."""
    x = n[0]
    wanted = list(n.integers("shape") if n.has("shape") else n.known_extents(1))
    if not n.integer("allowzero", 0):
        for axis, extent in enumerate(wanted):
            if is_ranged(extent) or extent != 0:
                continue
            if axis >= x.type.rank:
                raise n.fail(f"shape {wanted} keeps axis {axis}, which {x.type} does not have")
            wanted[axis] = x.type.shape[axis]
    if -1 in wanted:
        rest = math.prod(extent for extent in wanted if extent != -1)
        wanted[wanted.index(-1)] = extent_left(x.type, rest)
    return reshaped(n, x, wanted)


@onnx_op("Flatten")
def flatten(n: NodeContext) -> Value:
    """Two axes: those before `axis` joined, and those from it on."""
    x = n[0]
    axis = n.integer("axis", 1)
    axis += x.type.rank if axis < 0 else 0
    return reshaped(n, x, (math.prod(x.type.shape[:axis]), math.prod(x.type.shape[axis:])))


@onnx_op("Squeeze")
def squeeze(n: NodeContext) -> Value:
    """Drop axes of extent 1: the given ones, or all."""
    x = n[0]
    axes = axes_of(n, 1)
    if axes is None:
        dropped = tuple(axis for axis, extent in enumerate(x.type.shape) if extent == 1)
    else:
        dropped = normal_axes(axes, x.type)
    kept = [extent for axis, extent in enumerate(x.type.shape) if axis not in dropped]
    return reshaped(n, x, kept)


@onnx_op("Unsqueeze")
def unsqueeze(n: NodeContext) -> Value:
    """Insert axes of extent 1 so that they have the given places in the result."""
    x = n[0]
    axes = axes_of(n, 1) or ()
    rank = x.type.rank + len(axes)
    if len({axis % rank for axis in axes if -rank <= axis < rank}) < len(axes):
        raise ModelError(f"axes {axes} must be different places among {rank} axes")
    inserted = {axis % rank for axis in axes}
    extents = iter(x.type.shape)
    return reshaped(n, x, [1 if axis in inserted else next(extents) for axis in range(rank)])


@onnx_op("Expand")
def expand(n: NodeContext) -> Value:
    """Both ways: an extent of 1 in the wanted shape keeps that of x."""
    wanted = n.known_extents(1)
    if any(extent < 0 for extent in wanted):
        raise ModelError(f"a shape has no negative extents, got {wanted}")
    try:
        shape = broadcast_shape(x=n[0].type, shape=n[0].type.with_shape(wanted))
    except UndecidedExtentError:
        raise
    except TypeRuleError:
        raise ModelError(f"{n[0].type} cannot be expanded to {wanted}") from None
    return n.emit(Expand(shape), n[0])


@onnx_op("Transpose")
def transpose(n: NodeContext) -> Value:
    """Reversed axes unless told otherwise."""
    x = n[0]
    return n.emit(Transpose(n.integers("perm", range(x.type.rank)[::-1])), x)


@onnx_op("Concat")
def concat(n: NodeContext) -> Value | GrownTensor:
    """Version 1 had a default axis."""
    axis = n.integer("axis", 1 if n.opset < 4 else None)
    for operand in n.operands:
        if isinstance(operand, GrownTensor):
            return concat_parts(n, normal_axis(axis, operand.rows.type), n.operands)
    return n.emit(Concat(normal_axis(axis, n[0].type, "input 0")), *n.values())


@onnx_op("Slice")
def slice_attributes(n: NodeContext) -> Value:
    """Starts and ends as attributes."""
    starts = n.integers("starts")
    axes = n.integers("axes", range(len(starts)))
    return _sliced(n, n[0], starts, n.integers("ends"), axes, [1] * len(starts))


@onnx_op("Slice", since=10)
def slice_inputs(n: NodeContext) -> Value | GrownTensor:
    """Starts, ends, axes and steps as inputs."""
    appended = first_rows_of_body(n)
    if appended is not None:
        return appended
    count = n[1].type.size
    axes = n.known_ints(3) if n.get(3) is not None else range(count)
    steps = n.known_ints(4) if n.get(4) is not None else [1] * count
    is_known = all(n.graph.known.elements(value) is not None for value in (n[1], n[2]))
    found: Value | GrownTensor | None = None
    if not is_known:
        found = moving_windows(n, n[1], n[2], axes, steps) or _sliced_by_data(n, axes, steps)
    if found is not None:
        return found
    return _sliced(n, n[0], n.known_extents(1), n.known_extents(2), axes, steps)


def _sliced_by_data(
    n: NodeContext, axes: Sequence[int], steps: Sequence[int]
) -> GrownTensor | None:
    """A slice that data bound along one axis, in a loop; None if that cannot be."""
    bounds = [_known_bounds(n, n[index]) for index in (1, 2)]
    fixed = [(*each, 1) for each in zip(*bounds, axes, strict=True) if None not in each]
    if not may_have_data_lengths(n) or len(fixed) != len(axes) - 1 or {*steps} != {1}:
        return None
    (place,) = (i for i, pair in enumerate(zip(*bounds, strict=True)) if None in pair)
    x = _sliced(n, n[0], *zip(*fixed, strict=True)) if fixed else n[0]
    pair = (slice_bounds_by_data(n, known, n[i], place) for i, known in enumerate(bounds, 1))
    return slice_by_data(n, x, normal_axis(axes[place], x.type), *pair)


def _known_bounds(n: NodeContext, bounds: Value) -> list[int | None]:
    """Bounds of a slice as integers or ranged extents; None for those that data tell."""
    elements = n.graph.known.elements(bounds)
    if elements is not None:
        return [whole(each) for each in elements.reshape(-1).tolist()]
    forms = n.graph.session.forms.of(bounds)
    if forms is None:
        return [None] * bounds.type.size
    return [None if form.terms else form.constant for form in forms]


def _sliced(
    n: NodeContext,
    x: Value,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
) -> Value:
    """Python's rules for bounds that are negative or beyond the end.

    But for one: backwards from before the first element, ONNX begins at the first element.
    """
    if len({len(starts), len(ends), len(axes), len(steps)}) > 1:
        raise ModelError("starts, ends, axes and steps must be equally many")
    firsts, extents, strides = [0] * x.type.rank, [*x.type.shape], [1] * x.type.rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise n.fail("a slice's step must not be 0")
        axis = normal_axis(axis, x.type)
        firsts[axis], extents[axis] = slice_bounds(x.type.shape[axis], start, end, step)
        strides[axis] = step
    if tuple(extents) == x.type.shape and all(step == 1 for step in strides):
        return x
    return n.emit(Slice(tuple(firsts), tuple(extents), tuple(strides)), x)


@onnx_op("Split")
def split(n: NodeContext) -> list[Value]:
    """The lengths are an attribute, later an input; else equal parts, the last one the rest."""
    x = n[0]
    axis = normal_axis(n.integer("axis", 0), x.type)
    if n.has("split"):
        lengths = n.integers("split")
    elif n.get(1) is not None:
        lengths = n.known_extents(1)
    else:
        count = n.integer("num_outputs", len(n.proto.output))
        if count > len(n.proto.output):
            raise ModelError(f"num_outputs is {count}, it has {len(n.proto.output)} outputs")
        lengths = equal_parts(x.type.shape[axis], count)
    return split_along(n, x, axis, lengths)


def equal_parts(extent: int, count: int) -> tuple[int, ...]:
    """The lengths of `count` parts as equal as can be with only the last ones shorter."""
    if is_ranged(extent):
        if is_ranged(extent % count) or extent % count:
            raise undecided(f"whether {extent} is a multiple of {count}", extent)
        return (extent // count,) * count
    most = -(-extent // count) if count else 0
    return tuple(max(0, min(most, extent - i * most)) for i in range(count))


@onnx_op("Pad")
def pad_attributes(n: NodeContext) -> Value:
    """Counts and value as attributes."""
    pads = n.integers("pads") if n.has("pads") else n.integers("paddings")
    value = n.number("value", 0.0)
    filling = n.constant(np.array(value, n[0].type.dtype.numpy)) if value else None
    return _padded(n, pads, range(n[0].type.rank), filling)


@onnx_op("Pad", since=11)
def pad_inputs(n: NodeContext) -> Value:
    """Counts, value and axes as inputs."""
    x, value = n[0], n.get(2)
    axes = n.known_ints(3) if n.get(3) is not None else range(x.type.rank)
    return _padded(n, n.known_extents(1), axes, reshaped(n, value, ()) if value else None)


def _padded(n: NodeContext, pads: Sequence[int], axes: Sequence[int], value: Value | None) -> Value:
    """Counts of each axis, negative ones to cut."""
    x = n[0]
    rank, count = x.type.rank, len(axes)
    before, after = [0] * rank, [0] * rank
    if len(pads) != 2 * count:
        raise ModelError(f"{len(pads)} pads are given for both sides of {count} axes")
    for i, axis in enumerate(axes):
        axis = normal_axis(axis, x.type)
        before[axis], after[axis] = pads[i], pads[count + i]
    return padded(n, x, before, after, n.choice("mode", _PAD_MODES, "constant"), value)


@onnx_op("Tile")
def tile_one_axis(n: NodeContext) -> Value:
    """Version 1: a count and an axis."""
    repeats = [1] * n[0].type.rank
    repeats[normal_axis(n.known_int(2), n[0].type)] = n.known_extent(1)
    return n.emit(Tile(tuple(repeats)), n[0])


@onnx_op("Tile", since=6)
def tile(n: NodeContext) -> Value:
    """One count an axis."""
    return n.emit(Tile(n.known_extents(1)), n[0])


@onnx_op("DepthToSpace")
def depth_to_space(n: NodeContext) -> Value:
    """Spread channels over blocks of pixels: DCR takes the block's rows first, CRD last."""
    batch, channels, height, width = n.extents(n[0], 4)
    block = n.integer("blocksize")
    if block < 1:
        raise ModelError(f"attribute 'blocksize' must be at least 1, it is {block}")
    inner = channels // (block * block)
    if n.text("mode", "DCR") == "DCR":
        split, perm = (batch, block, block, inner, height, width), (0, 3, 4, 1, 5, 2)
    else:
        split, perm = (batch, inner, block, block, height, width), (0, 1, 4, 2, 5, 3)
    spread = n.emit(Transpose(perm), n.emit(Reshape(split), n[0]))
    return n.emit(Reshape((batch, inner, height * block, width * block)), spread)


@onnx_op("SpaceToDepth")
def space_to_depth(n: NodeContext) -> Value:
    """Gather blocks of pixels into channels: DCR puts the block's rows first, CRD last."""
    batch, channels, height, width = n.extents(n[0], 4)
    block = n.integer("blocksize")
    if block < 1:
        raise ModelError(f"attribute 'blocksize' must be at least 1, it is {block}")
    rows, columns = height // block, width // block
    split = n.emit(Reshape((batch, channels, rows, block, columns, block)), n[0])
    perm = (0, 3, 5, 1, 2, 4) if n.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    gathered = n.emit(Transpose(perm), split)
    return n.emit(Reshape((batch, channels * block * block, rows, columns)), gathered)
