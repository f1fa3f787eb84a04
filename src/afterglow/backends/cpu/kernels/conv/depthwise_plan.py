"""Depthwise convolutions: their geometry, how they are cut into tiles, how weights are packed."""

from __future__ import annotations

import math

import numpy as np

from afterglow.backends.cpu.llvm.emitter import Pointer
from afterglow.backends.cpu.micro.kernel import KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.sliding import Channels, WindowAxis, WindowField, arithmetic_type
from afterglow.instr import Region
from afterglow.ops.convolution import Conv
from afterglow.types import Array
from afterglow.types.extent import largest

TILE_ROWS = 2
MOST_TILE_COLUMNS = 4
"""Rows and columns of a tile whose rows are written one by one."""
LONG_TILE = 8
"""Columns of a tile of one row, which loops over the rows of the window."""
ROWS_ALONE = 4
"""Rows of a tile where there is one column only."""
MOST_TAPS = 32
"""Places in rows and columns of a window that are written one by one; more, and rows are a loop."""


class Depthwise:
    """The geometry of the convolution, and how it is cut into tiles."""

    def __init__(self, k: KernelRequest) -> None:
        op, (x, weight) = k.step.op, k.step.required
        assert isinstance(op, Conv)
        self.x, self.weight = x, weight
        self.bias = k.step.optional(2)
        self.field = WindowField.of(op.windows(weight.type.shape), x)
        self.dtype = arithmetic_type(x.type.dtype)
        self.results = weight.type.shape[0]
        self.multiplier = self.results // self.field.channels
        self.tile_rows, self.tile_columns = self._tile()
        outer = math.prod(axis.count for axis in self.field.axes[:-2])
        self.row_tiles = self.field.batch * outer * -(-self.rows.count // self.tile_rows)
        self.channels = Channels.of(
            k.target, self.results, self.dtype, x.type.dtype, self.row_tiles
        )
        self.padded = -(-self.results // self.channels.lanes) * self.channels.lanes
        self.work = 2.0 * k.step.outs[0].type.size * self.taps

    def _tile(self) -> tuple[int, int]:
        """Rows and columns of a tile: as many as there are windows that share a column of x."""
        columns = self.field.columns
        if not self.unrolls_rows:
            return 1, min(LONG_TILE, largest(columns.count))
        if columns.count == 1:
            return min(ROWS_ALONE, largest(self.rows.count)), 1
        sharing = -(-columns.reach // columns.stride)
        width = max(2, min(MOST_TILE_COLUMNS, sharing))
        return min(TILE_ROWS, largest(self.rows.count)), min(width, largest(columns.count))

    @property
    def rows(self) -> WindowAxis:
        """The windows along the last axis but one."""
        return self.field.axes[-2]

    @property
    def taps(self) -> int:
        """Places in a window."""
        return math.prod(axis.kernel for axis in self.field.axes)

    @property
    def has_packed_weight(self) -> bool:
        """Whether the weight is known now, so that it is packed now."""
        return self.weight.region is Region.CONSTANT

    @property
    def unrolls_rows(self) -> bool:
        """Whether the rows of a tile are written one by one."""
        return self.rows.kernel * self.field.columns.kernel <= MOST_TAPS

    def packed_weight(self, p: Phase) -> Pointer:
        """The weight as [places, channels], with zeros up to a whole vector."""
        if not self.has_packed_weight:
            return p.workspace("weight")
        return p.packed(self.weight, "by_place", self._pack, self.dtype)

    @property
    def needs(self) -> KernelNeeds:
        """Memory for a weight that is packed when the kernel runs."""
        if self.has_packed_weight:
            return KernelNeeds(packed=(1,))
        return KernelNeeds(workspace={"weight": Storage(self.dtype, self.taps * self.padded)})

    def channels_of_x(self, p: Phase) -> Pointer | None:
        """For each result channel where the one of x lies that it sees; None if it is the same.

        Behind the last there are more, up to a whole vector, which may be read as well.
        """
        if self.multiplier == 1:
            return None
        channels = np.arange(self.padded) // self.multiplier
        inside = np.minimum(channels, self.field.channels - 1) * self.field.channel_step
        return p.table("channels", inside.astype(np.int32))

    def _pack(self, weight: Array) -> Array:
        by_place = weight.reshape(self.results, self.taps).T.astype(self.dtype.numpy)
        return np.pad(by_place, ((0, 0), (0, self.padded - self.results)))
