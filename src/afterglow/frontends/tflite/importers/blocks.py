"""TFLite's ops that move blocks between batch, space and channels."""

from __future__ import annotations

import math

from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value
from afterglow.ops.movement import Pad, Slice, Transpose
from afterglow.ops.shuffle import DepthToSpace, SpaceToDepth
from afterglow.support.errors import ModelError


@tflite_op("DEPTH_TO_SPACE", moves=True)
def depth_to_space(n: TfliteNode) -> Value:
    """Channels become blocks of pixels."""
    return n.emit(DepthToSpace(_block(n)), n[0])


@tflite_op("SPACE_TO_DEPTH", moves=True)
def space_to_depth(n: TfliteNode) -> Value:
    """Blocks of pixels become channels."""
    return n.emit(SpaceToDepth(_block(n)), n[0])


def _block(n: TfliteNode) -> int:
    n.extents(n[0], 4)
    block = n.count("block_size")
    if block < 1:
        raise ModelError(f"block_size is {block}, it must be at least 1")
    return block


@tflite_op("SPACE_TO_BATCH_ND")
def space_to_batch(n: TfliteNode) -> Value:
    """Pixels a block apart become images of their own, after padding."""
    x, blocks = n[0], _blocks(n)
    count = len(blocks)
    pads = n.known_extents(2)
    before, after = ((0, *pads[i::2], *(0 for _ in x.type.shape[1 + count :])) for i in (0, 1))
    x = n.emit(Pad(before, after), x) if any(pads) else x
    batch, *extents = x.type.shape
    spatial, rest = extents[:count], extents[count:]
    if any(e % block for e, block in zip(spatial, blocks, strict=True)):
        raise ModelError(f"{x.type} cannot be divided into blocks of {blocks}")
    counts = [e // block for e, block in zip(spatial, blocks, strict=True)]
    apart = reshaped(n, x, (batch, *_paired(counts, blocks), *rest))
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count + 1, 2)
    last = range(2 * count + 1, 2 * count + 1 + len(rest))
    moved = n.emit(Transpose((*inner, 0, *outer, *last)), apart)
    return reshaped(n, moved, (batch * math.prod(blocks), *counts, *rest))


@tflite_op("BATCH_TO_SPACE_ND", moves=True)
def batch_to_space(n: TfliteNode) -> Value:
    """Images become pixels a block apart of one image, which then is cropped."""
    x, blocks = n[0], _blocks(n)
    count = len(blocks)
    batch, *extents = x.type.shape
    spatial, rest = extents[:count], extents[count:]
    images = batch // math.prod(blocks)
    if images * math.prod(blocks) != batch:
        raise ModelError(f"{x.type} has no images for blocks of {blocks}")
    apart = reshaped(n, x, (*blocks, images, *spatial, *rest))
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    last = range(2 * count + 1, 2 * count + 1 + len(rest))
    moved = n.emit(Transpose((count, *pairs, *last)), apart)
    whole = [e * block for e, block in zip(spatial, blocks, strict=True)]
    y = reshaped(n, moved, (images, *whole, *rest))
    crops = n.known_extents(2)
    if not any(crops):
        return y
    first, behind = (0, *crops[::2], *(0 for _ in rest)), (0, *crops[1::2], *(0 for _ in rest))
    kept = tuple(e - a - b for e, a, b in zip(y.type.shape, first, behind, strict=True))
    return n.emit(Slice(first, kept, (1,) * len(kept)), y)


def _blocks(n: TfliteNode) -> tuple[int, ...]:
    """The extents of a block, which go with the axes behind the first; pads go with them."""
    blocks = n.known_ints(1)
    others = n.known_extents(2)
    fits = 0 < len(blocks) < n[0].type.rank and len(others) == 2 * len(blocks)
    if not fits or any(block < 1 for block in blocks) or any(each < 0 for each in others):
        raise ModelError(f"blocks {blocks} and pads or crops {others} do not fit {n[0].type}")
    return blocks


def _paired(counts: list[int], blocks: tuple[int, ...]) -> list[int]:
    return [e for pair in zip(counts, blocks, strict=True) for e in pair]
