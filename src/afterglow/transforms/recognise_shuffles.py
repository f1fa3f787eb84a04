"""Recognise shuffles that are written as reshape, transpose, reshape."""

from __future__ import annotations

import math
from collections.abc import Iterator

from afterglow.graph import Builder, Node, Value
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.shuffle import ChannelShuffle, DepthToSpace, Shuffle, ShuffleMode, SpaceToDepth
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.layouts.layout import Layout
from afterglow.transforms.matching.values import has_one_use

Shape = tuple[int, ...]

TO_FIRST = (0, 3, 1, 2)
"""From [samples, rows, columns, channels] to [samples, channels, rows, columns]."""


@rewrite(Reshape)
def gather_shuffle(node: Node, b: Builder) -> Value | None:
    """reshape(transpose(reshape(x)))  ->  depth_to_space(x), space_to_depth(x), channel_shuffle(x).

    The order of the elements decides, so it does not matter which axes were split or joined along.
    """
    found = _moved(node)
    if found is None:
        return None
    x, layout = found
    joined = node.result.type.shape
    for shuffle in _candidates(x.type.shape, joined, layout):
        split, perm, shape = shuffle.steps(x.type.shape)
        if shape == joined and Layout(split, perm).order == layout.order:
            return b.emit(shuffle, x)
    return None


def _moved(node: Node) -> tuple[Value, Layout] | None:
    """What a reshape, a transpose and a reshape were applied to, and the order that they make."""
    match node:
        case Node(
            Reshape(),
            [
                Value(
                    Node(
                        Transpose(perm),
                        [Value(Node(Reshape(split), [Value() as x])) as parts],
                    )
                ) as turned
            ],
        ) if has_one_use(turned) and has_one_use(parts) and x.type.nbytes:
            return x, Layout(split, perm)
    return None


def _candidates(shape: Shape, joined: Shape, layout: Layout) -> Iterator[Shuffle]:
    if shape == joined and len(shape) > 2:
        yield from _channel_shuffles(shape, layout)
    if len(shape) == len(joined) == 4:
        yield from _block_shuffles(shape, joined)


def _block_shuffles(shape: Shape, joined: Shape) -> Iterator[DepthToSpace | SpaceToDepth]:
    """Those that change the number of rows as wanted; axis 1 is that of the rows."""
    for mode in ShuffleMode:
        if joined[1] > shape[1] and shape[3] % (joined[1] // shape[1]) ** 2 == 0:
            yield DepthToSpace(joined[1] // shape[1], mode)
        if joined[1] < shape[1] and shape[2] % (shape[1] // joined[1]) == 0:
            yield SpaceToDepth(shape[1] // joined[1], mode)


def _channel_shuffles(shape: Shape, layout: Layout) -> Iterator[ChannelShuffle]:
    """Those that swap the two neighbours that the order swaps, if they are one axis."""
    extents, perm = layout.order
    swapped = [i for i in range(len(perm) - 1) if perm[i] == i + 1 and perm[i + 1] == i]
    if len(swapped) != 1:
        return
    groups, count = extents[swapped[0]], extents[swapped[0] + 1]
    for axis, channels in enumerate(shape):
        before = math.prod(shape[:axis])
        if channels == groups * count and before == math.prod(extents[: swapped[0]]):
            yield ChannelShuffle(groups, axis)


@rewrite(Reshape)
def gather_channels_first(node: Node, b: Builder) -> Value | None:
    """The same of a transpose(z) to channels first  ->  transpose(shuffle(z))."""
    found = _moved(node)
    if found is None:
        return None
    x, layout = found
    first = node.result.type.shape
    match x:
        case Value(Node(Transpose(perm), [Value() as z])) if perm == TO_FIRST and len(first) == 4:
            samples, channels, rows, columns = first
            joined = (samples, rows, columns, channels)
            for shuffle in _block_shuffles(z.type.shape, joined):
                if _order_of_first(shuffle, x.type.shape) == layout.order:
                    return b.emit(Transpose(TO_FIRST), b.emit(shuffle, z))
    return None


def _order_of_first(shuffle: DepthToSpace | SpaceToDepth, shape: Shape) -> object:
    """The order of elements that the shuffle makes of a tensor whose channels come first."""
    samples, channels, rows, columns = shape
    n, dcr = shuffle.block, shuffle.mode is ShuffleMode.DCR
    if isinstance(shuffle, SpaceToDepth):
        split = (samples, channels, rows // n, n, columns // n, n)
        return Layout(split, (0, 3, 5, 1, 2, 4) if dcr else (0, 1, 3, 5, 2, 4)).order
    kept = channels // n**2
    if dcr:
        return Layout((samples, n, n, kept, rows, columns), (0, 3, 4, 1, 5, 2)).order
    return Layout((samples, kept, n, n, rows, columns), (0, 1, 4, 2, 5, 3)).order


RECOGNISE_SHUFFLES = RewritePass("recognise-shuffles", (gather_shuffle, gather_channels_first))
