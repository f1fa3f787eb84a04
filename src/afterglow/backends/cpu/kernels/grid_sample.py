"""Sampling of images at positions that are computed."""

from __future__ import annotations

import math
from functools import reduce

from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import Index, Value, convert, fma, rint
from afterglow.backends.cpu.micro.cost import SAMPLED_POSITION
from afterglow.backends.cpu.micro.kernel import Kernel, Phase
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.backends.cpu.micro.sampling import Corner, corners_of, taps_of
from afterglow.backends.cpu.micro.sliding import Channels, arithmetic_type, each_row
from afterglow.ops.grid_sample import GridSample
from afterglow.ops.image import Interpolation
from afterglow.types.dtype import DType
from afterglow.types.extent import is_ranged

BLOCK = 16
"""Positions that a unit samples."""


@kernel(GridSample)
def write_grid_sample(k: Kernel) -> None:
    """Write a kernel that samples x [N, spatial…, C] at each position of a grid."""
    x, result = k.step.required[0], k.step.outs[0]
    positions = math.prod(result.type.shape[:-1])
    blocks = -(-positions // BLOCK)
    channels = Channels.of(k.target, x.type.shape[-1], _computed(k), x.type.dtype, blocks)
    neighbours = {Interpolation.NEAREST: 1, Interpolation.LINEAR: 2, Interpolation.CUBIC: 4}
    corners = neighbours[_op(k).mode] ** (x.type.rank - 2)
    work = 2.0 * corners * (result.type.size + SAMPLED_POSITION * positions)
    with k.phase(blocks * channels.blocks, work) as p:
        sampling = _Sampling(p, channels, positions)
        each_row(p, blocks, channels, sampling.write_block)


def _op(k: Kernel) -> GridSample:
    op = k.step.op
    assert isinstance(op, GridSample)
    return op


def _computed(k: Kernel) -> DType:
    """The type of sums; the nearest elements are only moved."""
    dtype = k.step.outs[0].type.dtype
    return dtype if _op(k).mode is Interpolation.NEAREST else arithmetic_type(dtype)


class _Sampling:
    """The phase while it is being written."""

    def __init__(self, p: Phase, channels: Channels, positions: int) -> None:
        x, grid = p.step.required
        self.e, self.op, self.dtype = p.e, _op(p.kernel), _computed(p.kernel)
        self.channels, self.positions = channels, positions
        self.x, self.grid, self.sink = p.pointer(x), p.pointer(grid), p.sink()
        self.shape, self.strides = x.type.shape, x.strides
        self.in_image = math.prod(grid.type.shape[1:-1])
        self.rows = Axes.merged(grid.type.shape[:-1], grid.strides[:-1])
        self.step = grid.strides[-1]

    def write_block(self, block: Index, bounds: tuple[Index, Index]) -> None:
        """Some positions, one after the other."""
        e = self.e
        with e.loop(BLOCK, name="position") as number:
            position = e.index(block) * BLOCK + number
            with e.when(position < self.positions):
                self._write_position(position, bounds)

    def _write_position(self, position: Value, bounds: tuple[Index, Index]) -> None:
        corners, row = self._corners(position), self.sink.row(position)

        def write_vector(channel: Value, lanes: int, mask: Value | None) -> None:
            row.put(channel, self._sum(corners, channel, lanes, mask), mask)

        self.channels.each(self.e, bounds, write_vector)

    def _corners(self, position: Value) -> list[Corner]:
        """The neighbours of a position."""
        op, row = self.op, self.grid + self.rows.offset(position)
        last = len(self.shape) - 3
        taps = []
        for i, extent in enumerate(self.shape[1:-1]):
            at = _mapped(row.load((last - i) * self.step), op, extent)
            at = rint(at) if op.mode is Interpolation.NEAREST else at
            taps.append(taps_of(op.axis_of(extent), at))
        image, _ = split(position, self.in_image)
        start = self.x + self.e.index(image) * self.strides[0]
        return list(corners_of(start, self.strides[1:-1], taps, self.dtype))

    def _sum(self, corners: list[Corner], channel: Value, lanes: int, mask: Value | None) -> Value:
        values = (c.read(self.strides[-1], channel, lanes, mask, self.dtype) for c in corners)
        pairs = zip(values, corners, strict=True)
        return reduce(lambda total, pair: _added(total, *pair), pairs, self._zero(lanes))

    def _zero(self, lanes: int) -> Value:
        return self.e.constant(self.dtype, 0, lanes)


def _added(total: Value, value: Value, corner: Corner) -> Value:
    return value if corner.weight is None else fma(value, corner.weight, total)


def _mapped(place: Value, op: GridSample, extent: int) -> Value:
    """Where a position lies in elements, rounded as the type of the grid rounds it."""
    dtype = place.dtype
    computed = arithmetic_type(dtype)
    factor, first = _mapping(place, op, extent)
    scaled = convert(convert(convert(place, computed) * factor, dtype), computed)
    return convert(convert(scaled + first, dtype), computed)


def _mapping(place: Value, op: GridSample, extent: int) -> tuple[Value | float, Value | float]:
    """Scale and offset as `GridSample.mapping` has them, rounded as the type of the grid."""
    dtype = place.dtype
    if not is_ranged(extent):
        scale, offset = (float(dtype.numpy.type(number)) for number in op.mapping(extent))
        return scale, offset
    computed = arithmetic_type(dtype)
    whole, between = (
        convert(convert(Value.of(place.code, computed, n) * 0.5, dtype), computed)
        for n in (extent, extent - 1)
    )
    return (between if op.align_corners else whole), between
