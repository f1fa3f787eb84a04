"""Make slices fewer and smaller, and gathers that are slices cheap."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.indexing import Gather
from afterglow.ops.movement import Expand, Pad, Reshape, Slice, slice_axis
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.values import constant_like
from afterglow.types import Array
from afterglow.types.extent import is_ranged, smallest


@rewrite(Slice)
def drop_whole_slice(node: Node, b: Builder) -> Value | None:
    """slice(x, everything)  ->  x."""
    match node:
        case Node(Slice(_, extents, steps), [Value() as x]) if x.type.shape == extents:
            forward = all(
                step == 1 or extent <= 1 for step, extent in zip(steps, extents, strict=True)
            )
            return x if forward else None
    return None


@rewrite(Slice)
def compose_slices(node: Node, b: Builder) -> Value | None:
    """slice(slice(x))  ->  slice(x)."""
    match node:
        case Node(
            Slice(starts, extents, steps), [Value(Node(Slice(begins, _, strides), [Value() as x]))]
        ) if node.result.type.nbytes:
            places = zip(begins, starts, strides, strict=True)
            first = tuple(begin + start * stride for begin, start, stride in places)
            step = tuple(outer * inner for outer, inner in zip(steps, strides, strict=True))
            return b.emit(Slice(first, extents, step), x)
    return None


@rewrite(Slice)
def slice_constant(node: Node, b: Builder) -> Value | None:
    """slice(constant)  ->  constant: a view, nothing is copied."""
    match node:
        case Node(Slice() as op, [Constant(data) as source]) if not node.is_ranged:
            return constant_like(b, source, op.evaluate(data), node.result.type)
    return None


@rewrite(Slice)
def slice_inside_pad(node: Node, b: Builder) -> Value | None:
    """slice(pad(x))  ->  slice(x),  if it takes nothing that was added."""
    match node:
        case Node(Slice() as op, [Value(Node(Pad(before), [Value() as x, *_]))]):
            starts = tuple(start - pad for start, pad in zip(op.starts, before, strict=True))
            if node.result.type.nbytes and _lies_within(starts, op, x.type.shape):
                return b.emit(Slice(starts, op.extents, op.steps), x)
    return None


def _lies_within(starts: tuple[int, ...], op: Slice, shape: tuple[int, ...]) -> bool:
    axes = zip(starts, op.extents, op.steps, shape, strict=True)
    return all(
        0 <= start < limit and 0 <= start + (extent - 1) * step < limit
        for start, extent, step, limit in axes
    )


@rewrite(Slice)
def slice_before_expand(node: Node, b: Builder) -> Value | None:
    """slice(expand(x))  ->  expand(slice(x)):  what is repeated need not be sliced."""
    match node:
        case Node(Slice() as op, [Value(Node(Expand(shape), [Value() as x]))]):
            inner = _unrepeated(op, x.type.shape, shape[len(shape) - x.type.rank :])
            return b.emit(Expand(op.extents), b.emit(inner, x))
    return None


def _unrepeated(op: Slice, shape: tuple[int, ...], repeated: tuple[int, ...]) -> Slice:
    """What a slice of an expanded value takes of the value itself."""
    first = len(op.extents) - len(shape)
    starts, extents, steps = list(op.starts), list(op.extents), list(op.steps)
    for axis, (extent, whole) in enumerate(zip(shape, repeated, strict=True), first):
        if extent != whole:
            starts[axis], extents[axis], steps[axis] = 0, 1, 1
    return Slice(tuple(starts[first:]), tuple(extents[first:]), tuple(steps[first:]))


@rewrite(Gather)
def gather_by_slice(node: Node, b: Builder) -> Value | None:
    """gather(x, (i, i + k, i + 2 k, ...))  ->  reshape(slice(x)),  for known indices."""
    match node:
        case Node(Gather(axis), [Value() as x, Constant(indices)]) if indices.size:
            axis %= x.type.rank
            places = _places(indices, x.type.shape[axis])
            if places is None:
                return None
            start, step = places
            part = b.emit(slice_axis(x.type, axis, start, indices.size, step), x)
            return b.emit(Reshape(node.result.type.shape), part)
    return None


def _places(indices: Array, extent: int) -> tuple[int, int] | None:
    """The first index and the step to the next, if all are one step apart and within reach."""
    flat = indices.reshape(-1).astype(np.int64)
    if not is_ranged(extent):
        flat = np.where(flat < 0, flat + extent, flat)
    step = int(flat[1] - flat[0]) if flat.size > 1 else 1
    if not step or (np.diff(flat) != step).any():
        return None
    if flat.min() >= 0:
        return (int(flat[0]), step) if flat.max() < smallest(extent) else None
    from_end = flat.max() < 0 and flat.min() >= -smallest(extent)
    return (extent + int(flat[0]), step) if from_end else None


SIMPLIFY_SLICES = RewritePass(
    "simplify-slices",
    (
        drop_whole_slice,
        compose_slices,
        slice_constant,
        slice_inside_pad,
        slice_before_expand,
        gather_by_slice,
    ),
)
