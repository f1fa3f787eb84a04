"""Ops of PyTorch that move elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.frontends.common.bounds import extent_left
from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import counts, expanded, integer_constant, padded, reshaped
from afterglow.frontends.torch.importers.elementwise import name_of
from afterglow.frontends.torch.importers.operands import axis_of, number, operand
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops import elementwise as e
from afterglow.ops.indexing import Gather
from afterglow.ops.movement import Concat, PadMode, Tile, Transpose, flip, slice_axis
from afterglow.support.errors import ModelError
from afterglow.types.extent import is_ranged


@aten("view", "reshape", "_unsafe_view", "view_copy", "_reshape_alias", "_reshape_copy")
def view(n: TorchNode) -> Value:
    """-1 stands for what is left."""
    x = n.value("self")
    wanted = list(n.sizes("shape" if n.has("shape") else "size"))
    if -1 in wanted:
        rest = math.prod(extent for extent in wanted if extent != -1)
        wanted[wanted.index(-1)] = extent_left(x.type, rest)
    return reshaped(n, x, wanted)


@aten("flatten.using_ints")
def flatten(n: TorchNode) -> Value:
    """Axes joined to one."""
    x = n.value("self")
    rank, shape = x.type.rank, x.type.shape
    first, last = axis_of(n, "start_dim", rank), axis_of(n, "end_dim", rank)
    return reshaped(n, x, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@aten("unsqueeze", "unsqueeze_copy")
def unsqueeze(n: TorchNode) -> Value:
    """A new axis of extent 1."""
    x = n.value("self")
    axis, shape = axis_of(n, "dim", x.type.rank + 1), x.type.shape
    return reshaped(n, x, (*shape[:axis], 1, *shape[axis:]))


@aten(
    *("squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy", "squeeze_copy.dim"),
    "squeeze_copy.dims",
)
def squeeze(n: TorchNode) -> Value:
    """Without axes of extent 1: the given ones that have it, or all."""
    x = n.value("self")
    rank = x.type.rank
    dims = range(rank) if not n.has("dim") else [d % max(rank, 1) for d in n.sizes("dim")]
    shape = [extent for axis, extent in enumerate(x.type.shape) if axis not in dims or extent != 1]
    return reshaped(n, x, shape)


@aten("expand", "expand_copy")
def expand(n: TorchNode) -> Value:
    """-1 keeps an extent."""
    x, wanted = n.value("self"), n.sizes("size")
    new = len(wanted) - x.type.rank
    shape = [
        x.type.shape[axis - new] if not is_ranged(extent) and extent == -1 else extent
        for axis, extent in enumerate(wanted)
    ]
    return expanded(n, x, shape)


@aten("permute", "permute_copy")
def permute(n: TorchNode) -> Value:
    """Axes in another order."""
    x = n.value("self")
    return transposed(n, x, [axis % x.type.rank for axis in n.sizes("dims")])


@aten("transpose.int", "transpose_copy.int")
def transpose(n: TorchNode) -> Value:
    """Two axes swapped."""
    x = n.value("self")
    first, second = (axis_of(n, name, x.type.rank) for name in ("dim0", "dim1"))
    perm = list(range(x.type.rank))
    if perm:
        perm[first], perm[second] = perm[second], perm[first]
    return transposed(n, x, perm)


@aten("t", "t_copy")
def matrix_transpose(n: TorchNode) -> Value:
    """A matrix mirrored; a vector stays."""
    x = n.value("self")
    return transposed(n, x, range(x.type.rank)[::-1])


def transposed(n: TorchNode, x: Value, perm: Sequence[int]) -> Value:
    """The axes in an order; x itself if they have it."""
    return x if list(perm) == list(range(x.type.rank)) else n.emit(Transpose(tuple(perm)), x)


def moved_last(n: TorchNode, x: Value, *axes: int) -> Value:
    """These axes behind all others."""
    return transposed(n, x, [*(a for a in range(x.type.rank) if a not in axes), *axes])


@aten("cat", "concat", "concatenate")
def cat(n: TorchNode) -> Value:
    """Along an axis; vectors without elements go with anything."""
    parts = [as_dtype(n, x, n.result_type()) for x in n.tensors("tensors") if x is not None]
    kept = [x for x in parts if x.type.shape != (0,)]
    if not kept:
        return parts[0]
    return joined(n, kept, axis_of(n, "dim", kept[0].type.rank))


@aten("cat", namespace="prims")
def prims_cat(n: TorchNode) -> Value:
    """The same, as decompositions leave it."""
    return cat(n)


def joined(n: TorchNode, parts: Sequence[Value], axis: int) -> Value:
    """Parts one behind the other."""
    return parts[0] if len(parts) == 1 else n.emit(Concat(axis), *parts)


@aten("stack")
def stack(n: TorchNode) -> Value:
    """Along a new axis."""
    parts = [as_dtype(n, x, n.result_type()) for x in n.tensors("tensors") if x is not None]
    axis, shape = axis_of(n, "dim", parts[0].type.rank + 1), parts[0].type.shape
    apart = [reshaped(n, x, (*shape[:axis], 1, *shape[axis:])) for x in parts]
    return joined(n, apart, axis)


@aten("flip")
def reverse(n: TorchNode) -> Value:
    """The elements along axes in reverse order."""
    x = n.value("self")
    for dim in n.sizes("dims"):
        if x.type.rank:
            x = n.emit(flip(x.type, dim % x.type.rank), x)
    return x


@aten("roll")
def roll(n: TorchNode) -> Value:
    """The last elements to the front, along axes or along all at once."""
    x, shape = n.value("self"), n.value("self").type.shape
    dims, shifts = n.sizes("dims"), n.sizes("shifts")
    if not dims:
        return reshaped(n, _rolled(n, reshaped(n, x, (x.type.size,)), 0, shifts[0]), shape)
    for dim, shift in zip(dims, shifts, strict=True):
        x = _rolled(n, x, dim % max(x.type.rank, 1), shift) if x.type.rank else x
    return x


def _rolled(n: TorchNode, x: Value, axis: int, shift: int) -> Value:
    extent = x.type.shape[axis]
    if not is_ranged(extent) and extent == 0:
        return x
    count = shift % extent
    if not is_ranged(count) and count == 0:
        return x
    last = n.emit(slice_axis(x.type, axis, extent - count, count), x)
    return n.emit(Concat(axis), last, n.emit(slice_axis(x.type, axis, 0, extent - count), x))


@aten("repeat")
def repeat(n: TorchNode) -> Value:
    """All of it so often along each axis; new axes in front."""
    x, repeats = n.value("self"), n.sizes("repeats")
    x = reshaped(n, x, (*(1,) * (len(repeats) - x.type.rank), *x.type.shape))
    return n.emit(Tile(repeats), x) if repeats else x


@aten("repeat_interleave.self_int")
def repeat_each(n: TorchNode) -> Value:
    """Each element so often along an axis."""
    x, repeats = n.value("self"), n.size("repeats")
    if n.argument("dim") is None:
        x, axis = reshaped(n, x, (x.type.size,)), 0
    else:
        x = reshaped(n, x, x.type.shape or (1,))
        axis = axis_of(n, "dim", x.type.rank)
    shape = x.type.shape
    apart = reshaped(n, x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    wide = expanded(n, apart, (*shape[: axis + 1], repeats, *shape[axis + 1 :]))
    return reshaped(n, wide, (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]))


@aten("repeat_interleave.Tensor")
def repeat_counts(n: TorchNode) -> Value:
    """Each index as often as it says: data decides how many there are."""
    counted = n.value_of(n.value("repeats"))
    return n.constant(np.repeat(np.arange(counted.size), counted).astype(np.int64))


@aten("unfold", "unfold_copy")
def unfold(n: TorchNode) -> Value:
    """Windows along an axis, each laid along a new last axis."""
    x, size, step = n.value("self"), n.size("size"), n.size("step")
    if not x.type.rank:
        x = reshaped(n, x, (1,))
        return n.emit(slice_axis(x.type, 0, 0, size), x)
    axis = axis_of(n, "dimension", x.type.rank)
    count = (x.type.shape[axis] - size) // step + 1
    starts = n.emit(e.Mul(), counts(n, (count, size), 0), integer_constant(n, step))
    places = n.emit(e.Add(), starts, counts(n, (count, size), 1))
    return moved_last(n, n.emit(Gather(axis), x, places), axis + 1)


@aten("diagonal", "diagonal_copy")
def diagonal(n: TorchNode) -> Value:
    """Of each matrix in two axes: a slice of the flattened matrix with a step."""
    x, offset = n.value("self"), n.size("offset")
    axes = [axis_of(n, name, x.type.rank) for name in ("dim1", "dim2")]
    x = moved_last(n, x, *axes)
    *outer, rows, columns = x.type.shape
    first = offset if offset >= 0 else -offset * columns
    count = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    flat = reshaped(n, x, (*outer, rows * columns))
    if count <= 0:
        return n.emit(slice_axis(flat.type, len(outer), 0, 0), flat)
    return n.emit(slice_axis(flat.type, len(outer), first, count, columns + 1), flat)


@aten("diagonal_scatter")
def diagonal_scatter(n: TorchNode) -> Value:
    """With the diagonal of each matrix in two axes replaced."""
    x, offset = n.value("self"), n.size("offset")
    axes = [axis_of(n, name, x.type.rank) for name in ("dim1", "dim2")]
    rows, columns = (x.type.shape[axis] for axis in axes)
    source = as_dtype(n, n.value("src"), x.type.dtype)
    count = source.type.shape[-1]
    if not is_ranged(count) and count == 0:
        return x
    # along the rows where the diagonal begins at the left, else along the columns
    side, before = (rows, -offset) if offset < 0 else (columns, offset)
    rank = source.type.rank - 1
    spread = padded(n, source, [*[0] * rank, before], [*[0] * rank, side - before - count])
    outer = spread.type.shape[:-1]
    spread = reshaped(n, spread, (*outer, side, 1) if offset < 0 else (*outer, 1, side))
    row, column = counts(n, (rows, columns), 0), counts(n, (rows, columns), 1)
    hit = n.emit(e.Equal(), n.emit(e.Add(), row, integer_constant(n, offset)), column)
    found = n.emit(e.Where(), hit, spread, moved_last(n, x, *axes))
    return moved_back(n, found, *axes)


def moved_back(n: TorchNode, x: Value, *axes: int) -> Value:
    """The last axes at these places: what `moved_last` does, undone."""
    places = [*(axis for axis in range(x.type.rank) if axis not in axes), *axes]
    return transposed(n, x, [places.index(axis) for axis in range(x.type.rank)])


@aten("diag_embed")
def diag_embed(n: TorchNode) -> Value:
    """A matrix with its last axis on a diagonal, and zeros elsewhere."""
    x, offset = n.value("self"), n.size("offset")
    rank = x.type.rank + 1
    axes = [axis_of(n, name, rank) for name in ("dim1", "dim2")]
    after = [0] * x.type.rank
    after[-1] = abs(offset)
    x = padded(n, x, [0] * x.type.rank, after)
    *outer, side = x.type.shape
    x = reshaped(n, x, (*outer, side, 1) if offset >= 0 else (*outer, 1, side))
    row, column = counts(n, (side, side), 0), counts(n, (side, side), 1)
    hit = n.emit(e.Equal(), n.emit(e.Add(), row, integer_constant(n, offset)), column)
    found = n.emit(e.Where(), hit, x, number(n, 0, x.type.dtype))
    return moved_back(n, found, *axes)


_PAD_MODES = {"reflection": PadMode.REFLECT, "replication": PadMode.EDGE}


@aten("constant_pad_nd")
def constant_pad(n: TorchNode) -> Value:
    """A number around the last axes; negative counts cut."""
    x = n.value("self")
    before, after = pads_of(n.sizes("pad"), x.type.rank)
    return padded(n, x, before, after, value=operand(n, "value", x.type.dtype))


@aten(*(f"{mode}_pad{rank}d" for mode in _PAD_MODES for rank in (1, 2, 3)))
def copying_pad(n: TorchNode) -> Value:
    """Copies of its own elements around the last axes."""
    x = n.value("self")
    before, after = pads_of(n.sizes("padding"), x.type.rank)
    return padded(n, x, before, after, _PAD_MODES[name_of(n).partition("_")[0]])


def pads_of(pads: Sequence[int], rank: int) -> tuple[list[int], list[int]]:
    """Counts before and behind each axis, from pairs that begin with the last axis."""
    if len(pads) % 2 or len(pads) > 2 * rank:
        raise ModelError(f"{len(pads)} pads do not fit {rank} axes")
    rest = [0] * (rank - len(pads) // 2)
    return rest + list(pads[0::2])[::-1], rest + list(pads[1::2])[::-1]


@aten("pixel_shuffle")
def pixel_shuffle(n: TorchNode) -> Value:
    """Channels spread over blocks of pixels."""
    x, block = n.value("self"), n.size("upscale_factor")
    *outer, channels, height, width = x.type.shape
    inner = channels // (block * block)
    rank = len(outer)
    x = reshaped(n, x, (*outer, inner, block, block, height, width))
    x = transposed(n, x, [*range(rank), *(rank + at for at in (0, 3, 1, 4, 2))])
    return reshaped(n, x, (*outer, inner, height * block, width * block))


@aten("pixel_unshuffle")
def pixel_unshuffle(n: TorchNode) -> Value:
    """Blocks of pixels gathered into channels."""
    x, block = n.value("self"), n.size("downscale_factor")
    *outer, channels, height, width = x.type.shape
    rank, rows, columns = len(outer), height // block, width // block
    x = reshaped(n, x, (*outer, channels, rows, block, columns, block))
    x = transposed(n, x, [*range(rank), *(rank + at for at in (0, 2, 4, 1, 3))])
    return reshaped(n, x, (*outer, channels * block * block, rows, columns))
