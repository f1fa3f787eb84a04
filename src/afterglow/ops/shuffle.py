"""Shuffles: channels become neighbouring places, places become channels, channels change places.

Tensors are [samples, rows, columns, channels]. Each shuffle is a reshape that splits axes, a
transpose of the parts, and a reshape that joins them anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from afterglow.graph import Band, Builder, Cut, Value, op
from afterglow.ops.movement import Movement, Reshape, Transpose
from afterglow.ops.rules import normal_axis, require, require_rank
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType


class ShuffleMode(Enum):
    """Which varies slowest along the channels: the place in a block, or the channel that stays."""

    DCR = "dcr"
    CRD = "crd"


class Steps(NamedTuple):
    """How a shuffle is done: the shape of the parts, their new order, the shape of the result."""

    split: tuple[int, ...]
    perm: tuple[int, ...]
    joined: tuple[int, ...]


class Shuffle(Movement):
    """Base: split axes, transpose the parts, join them."""

    def steps(self, shape: tuple[int, ...]) -> Steps:
        """The three steps for a tensor of that shape."""
        raise NotImplementedError

    def evaluate(self, x: Array) -> Array:
        """The three steps."""
        split, perm, joined = self.steps(x.shape)
        return x.reshape(split).transpose(perm).reshape(joined)

    def lower(self, b: Builder, x: Value) -> Value:
        """The three steps."""
        split, perm, joined = self.steps(x.type.shape)
        parts = b.emit(Transpose(perm), b.emit(Reshape(split), x))
        return b.emit(Reshape(joined), parts)


@dataclass(frozen=True, repr=False)
class BlockShuffle(Shuffle):
    """Base: square blocks of places, `block` wide."""

    block: int
    mode: ShuffleMode = ShuffleMode.DCR


@op("depth_to_space")
class DepthToSpace(BlockShuffle):
    """Channels moved to space: block² channels of a pixel become a block of pixels."""

    def infer(self, x: TensorType) -> TensorType:
        """Rows and columns times `block`, channels divided by its square."""
        require_rank(4, x=x)
        require(
            self.block > 0 and x.shape[3] % self.block**2 == 0,
            f"the channels of {x} do not divide into blocks of {self.block} x {self.block}",
        )
        return x.with_shape(self.steps(x.shape).joined)

    def steps(self, shape: tuple[int, ...]) -> Steps:
        """Split the channels, and join each factor of the block with its axis."""
        samples, rows, columns, channels = shape
        n, kept = self.block, channels // self.block**2
        joined = (samples, rows * n, columns * n, kept)
        if self.mode is ShuffleMode.DCR:
            return Steps((samples, rows, columns, n, n, kept), (0, 1, 3, 2, 4, 5), joined)
        return Steps((samples, rows, columns, kept, n, n), (0, 1, 4, 2, 5, 3), joined)

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """Samples from samples, places from the places whose blocks they are in."""
        if cut.axis == 3:
            return None
        n = self.block if cut.axis else 1
        source = Cut(cut.axis, cut.start // n, -(-cut.stop // n))
        return Band(self, (source,), skip=cut.start - source.start * n)


@op("space_to_depth")
class SpaceToDepth(BlockShuffle):
    """Space moved to channels: a block of pixels becomes block² channels of one pixel."""

    def infer(self, x: TensorType) -> TensorType:
        """Rows and columns divided by `block`, channels times its square."""
        require_rank(4, x=x)
        require(
            self.block > 0 and x.shape[1] % self.block == 0 and x.shape[2] % self.block == 0,
            f"rows and columns of {x} do not divide into blocks of {self.block} x {self.block}",
        )
        return x.with_shape(self.steps(x.shape).joined)

    def steps(self, shape: tuple[int, ...]) -> Steps:
        """Split rows and columns, and join their second factors with the channels."""
        samples, rows, columns, channels = shape
        n = self.block
        split = (samples, rows // n, n, columns // n, n, channels)
        joined = (samples, rows // n, columns // n, channels * n * n)
        dcr = self.mode is ShuffleMode.DCR
        return Steps(split, (0, 1, 3, 2, 4, 5) if dcr else (0, 1, 3, 5, 2, 4), joined)

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """Samples from samples, places from their blocks."""
        if cut.axis == 3:
            return None
        n = self.block if cut.axis else 1
        return Band(self, (Cut(cut.axis, cut.start * n, cut.stop * n),))


@op("channel_shuffle")
class ChannelShuffle(Shuffle):
    """Channels interleaved by group: the first of each group, then the second, and so on."""

    groups: int
    axis: int = -1

    def infer(self, x: TensorType) -> TensorType:
        """The type of x, whose channels must divide into the groups."""
        channels = x.shape[normal_axis(self.axis, x)]
        require(
            self.groups > 0 and channels % self.groups == 0,
            f"{channels} channels do not divide into {self.groups} groups",
        )
        return x.with_shape(x.shape)

    def steps(self, shape: tuple[int, ...]) -> Steps:
        """Split the channels, and swap the two factors."""
        axis = self.axis % len(shape)
        parts = (self.groups, shape[axis] // self.groups)
        split = (*shape[:axis], *parts, *shape[axis + 1 :])
        perm = (*range(axis), axis + 1, axis, *range(axis + 2, len(split)))
        return Steps(split, perm, shape)

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """Along any other axis."""
        return None if cut.axis == self.axis % result.rank else Band(self, (cut,))

    def permuted(self, perm: tuple[int, ...]) -> ChannelShuffle:
        """Along the same axis at its new place."""
        return ChannelShuffle(self.groups, perm.index(self.axis % len(perm)))
