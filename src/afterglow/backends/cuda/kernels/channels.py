"""What convolutions and transposed ones share: groups of channels, the bias, sums."""

from __future__ import annotations

from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.kernels.products import Block
from afterglow.backends.cuda.kernels.tile import Extents, Tile
from afterglow.backends.cuda.kernels.tile_blocks import load
from afterglow.backends.cuda.tl import Value
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.types.dtype import DType, f32


class Channels:
    """Columns of products that are the channels of a result, of one group after the other."""

    sums: DType = f32
    is_large = False
    extents: Extents
    bias: Value | None = None

    def __init__(self, kernel: Kernel, tile: Tile) -> None:
        self.kernel, self.code, self.tile = kernel, kernel.code, tile

    def group(self, block: Block) -> Value | None:
        """Which group of channels the products of a block are of, if there are several."""
        return block.number

    def of_group(self, block: Block, distance: int) -> Value:
        """How far from that of the first group something of a group lies."""
        group = self.group(block)
        return self.code.index(0) if group is None else group * distance

    def column(self, block: Block) -> Value:
        """The channels of a block."""
        first = self.of_group(block, self.extents.columns)
        return self.code.named(block.columns.along(1) + first)

    def channels_of(self, step: Value, own: Value, count: int) -> tuple[Value, Value, list[Value]]:
        """The tap of an iteration, its channels, and the condition that there are such.

        `own` are the places in a block; there are `count` channels at each tap.
        """
        code, size = self.code, self.tile.terms
        blocks, masks = -(-count // size), []
        tap = step if blocks == 1 else code.named(step.combined("/", blocks))
        channels = own
        if blocks > 1:
            channels = code.named(step.combined("%", blocks) * size) + own
        if count % size:
            channels = code.named(channels)
            masks.append(channels < count)
        return tap, channels, masks

    def read_bias_early(self, block: Block) -> None:
        """Read the bias ahead of the loop over terms, if threads can keep it."""
        self.bias = self.read_bias(block) if self.tile.leaves_registers else None

    def read_bias(self, block: Block) -> Value | None:
        """The bias of the channels of a block, if there is one."""
        bias = self.kernel.step.optional(2)
        if bias is None:
            return None
        place = self.column(block) * bias.strides[0]
        masks = [] if block.columns.exact else [block.columns.inside(1)]
        return load(self.kernel.pointer(bias), place, masks)

    def finish(self, total: Value, block: Block) -> Value:
        """The sums with the bias."""
        bias = self.read_bias(block) if self.bias is None else self.bias
        return total if bias is None else total + convert(bias, f32)
