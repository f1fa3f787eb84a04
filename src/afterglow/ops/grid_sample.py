"""Sampling of images at positions that are computed."""

from __future__ import annotations

from functools import reduce

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.elementwise import Add, Mul, Round, scalar
from afterglow.ops.image import Interpolation
from afterglow.ops.movement import Reshape, slice_axis
from afterglow.ops.rules import require, require_exact, require_float
from afterglow.ops.sampling import Axis, Border, corners, emit_corners
from afterglow.types import Array, TensorType


@op("grid_sample")
class GridSample(Op):
    """x [N, spatial…, C] sampled at the positions in grid [N, out…, axes]: [N, out…, C].

    A position names the last spatial axis first. From -1 to 1 it spans the axis: between the
    centres of the outermost elements if `align_corners`, else between their outer ends.
    """

    mode: Interpolation = Interpolation.LINEAR
    border: Border = Border.ZEROS
    align_corners: bool = False

    def infer(self, x: TensorType, grid: TensorType) -> TensorType:
        """The positions of the grid, the channels of x."""
        require_float(grid=grid)
        if self.mode is not Interpolation.NEAREST:
            require_float(x=x)
        require(x.rank >= 3, f"x must have three axes or more, got {x}")
        fits = grid.rank >= 2 and (grid.shape[0], grid.shape[-1]) == (x.shape[0], x.rank - 2)
        require(fits, f"grid must hold {x.rank - 2} coordinates for each of N, got {grid} for {x}")
        result = x.with_shape((x.shape[0], *grid.shape[1:-1], x.shape[-1]))
        require(0 not in x.shape[1:-1] or not result.size, f"{x} has nothing to sample")
        return result

    def evaluate(self, x: Array, grid: Array) -> Array:
        """The sum of the neighbours, weighted."""
        last = grid.shape[-1] - 1
        taps = []
        for i, extent in enumerate(x.shape[1:-1]):
            scale, offset = self.mapping(extent)
            at = grid[..., last - i] * grid.dtype.type(scale) + grid.dtype.type(offset)
            axis = self.axis_of(extent)
            taps.append(axis.taps(np.rint(at) if self.mode is Interpolation.NEAREST else at))
        batch = np.arange(x.shape[0]).reshape(-1, *(1,) * (grid.ndim - 2))
        return reduce(np.add, corners(x, batch, taps))

    def lower(self, b: Builder, x: Value, grid: Value) -> Value:
        """A gather for each neighbour."""
        require_exact(x=x.type, grid=grid.type)
        shape = grid.type.shape[:-1]
        last = grid.type.rank - 1
        taps = []
        for i, extent in enumerate(x.type.shape[1:-1]):
            column = slice_axis(grid.type, last, grid.type.shape[-1] - 1 - i, 1)
            place = b.emit(Reshape(shape), b.emit(column, grid))
            scale, offset = self.mapping(extent)
            at = b.emit(Mul(), place, scalar(b, scale, place))
            at = b.emit(Add(), at, scalar(b, offset, place))
            if self.mode is Interpolation.NEAREST:
                at = b.emit(Round(), at)
            taps.append(self.axis_of(extent).emit_taps(b, at))
        rows = np.arange(x.type.shape[0]).reshape(-1, *(1,) * (len(shape) - 1))
        values = emit_corners(b, x, b.constant(rows, "batch"), taps)
        return reduce(lambda total, value: b.emit(Add(), total, value), values)

    def axis_of(self, extent: int) -> Axis:
        """How x is read along an axis of that extent."""
        return Axis(extent, self.mode, self.border, self.align_corners)

    def mapping(self, extent: int) -> tuple[float, float]:
        """Position in elements = grid * scale + offset."""
        half = (extent - 1) / 2
        return (half if self.align_corners else extent / 2), half
