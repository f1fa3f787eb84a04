"""Deformable convolution, channels last."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.movement import Concat, Reshape, slice_axis
from afterglow.ops.rules import (
    require,
    require_exact,
    require_float,
    require_same_dtype,
    require_shape,
)
from afterglow.ops.sampling import Axis, corners, emit_corners
from afterglow.ops.windows import Windows
from afterglow.types import Array, TensorType


@op("deform_conv")
class DeformConv(Op):
    """Deformable convolution: the kernel positions of each window are displaced by offsets.

    x [N, spatial…, C] and weight [O, kernel…, C / groups] as for `conv`. The channels of x fall
    into `offset_groups`; offset [N, out…, offset_groups * kernel places * axes] moves the places
    of each, and mask [N, out…, offset_groups * kernel places] weighs them. Between its elements x
    is interpolated linearly, outside it is zero.
    """

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int = 1
    offset_groups: int = 1

    def infer(
        self,
        x: TensorType,
        weight: TensorType,
        offset: TensorType,
        bias: TensorType | None = None,
        mask: TensorType | None = None,
    ) -> TensorType:
        """The type of the plain convolution."""
        require_float(x=x)
        require_same_dtype(x=x, offset=offset)
        plain = Conv(self.strides, self.pads, self.dilations, self.groups)
        result = plain.infer(x, weight, bias)
        channels, groups = x.shape[-1], self.offset_groups
        require(channels % groups == 0, f"channels do not fit {groups} offset groups: {x}")
        places = groups * math.prod(weight.shape[1:-1])
        require_shape((*result.shape[:-1], places * (x.rank - 2)), offset=offset)
        if mask is not None:
            require_same_dtype(x=x, mask=mask)
            require_shape((*result.shape[:-1], places), mask=mask)
        return result

    def evaluate(
        self,
        x: Array,
        weight: Array,
        offset: Array,
        bias: Array | None = None,
        mask: Array | None = None,
    ) -> Array:
        """Gather the windows, then multiply them with the weight."""
        windows = Windows(weight.shape[1:-1], self.strides, self.pads, self.dilations)
        counts, places = offset.shape[1:-1], math.prod(windows.kernel)
        moves = offset.reshape(x.shape[0], *counts, self.offset_groups, places, -1)
        batch = np.arange(x.shape[0]).reshape(-1, *(1,) * (len(counts) + 1))
        starts = _starts(windows, counts)
        parts = []
        for group, part in enumerate(np.split(x, self.offset_groups, axis=-1)):
            taps = [
                Axis(extent).taps(start + moves[..., group, :, axis])
                for axis, (extent, start) in enumerate(zip(x.shape[1:-1], starts, strict=True))
            ]
            parts.append(reduce(np.add, corners(part, batch, taps)))
        gathered = np.concatenate(parts, axis=-1)
        if mask is not None:
            by_group = mask.reshape(*gathered.shape[:-2], self.offset_groups, places)
            shares = np.repeat(by_group, x.shape[-1] // self.offset_groups, axis=-2)
            gathered = gathered * shares.swapaxes(-1, -2)
        columns = gathered.reshape(x.shape[0], math.prod(counts), places, x.shape[-1])
        rows = weight.reshape(weight.shape[0], 1, places, weight.shape[-1])
        result = self._product().evaluate(columns, rows, bias)
        return result.reshape(x.shape[0], *counts, weight.shape[0])

    def lower(
        self,
        b: Builder,
        x: Value,
        weight: Value,
        offset: Value,
        bias: Value | None = None,
        mask: Value | None = None,
    ) -> Value:
        """As `evaluate`: gathers, and a convolution of what they give."""
        require_exact(x=x.type, offset=offset.type)
        windows = Windows(weight.type.shape[1:-1], self.strides, self.pads, self.dilations)
        batch, *counts, _ = offset.type.shape
        places, results = math.prod(windows.kernel), weight.type.shape[0]
        parts = [
            self._lower_group(b, windows, group, x, offset, mask)
            for group in range(self.offset_groups)
        ]
        gathered = b.emit(Concat(len(counts) + 2), *parts) if len(parts) > 1 else parts[0]
        channels = x.type.shape[-1]
        columns = b.emit(Reshape((batch, math.prod(counts), places, channels)), gathered)
        rows = b.emit(Reshape((results, 1, places, weight.type.shape[-1])), weight)
        product = b.emit(self._product(), columns, rows, bias)
        return b.emit(Reshape((batch, *counts, results)), product)

    def _lower_group(
        self, b: Builder, windows: Windows, group: int, x: Value, offset: Value, mask: Value | None
    ) -> Value:
        """The windows of one offset group: [N, out…, kernel places, C / offset_groups]."""
        batch, *counts, _ = offset.type.shape
        places, last = math.prod(windows.kernel), x.type.rank - 1
        channels = x.type.shape[-1] // self.offset_groups
        part = b.emit(slice_axis(x.type, last, group * channels, channels), x)
        taps = []
        for axis, start in enumerate(_starts(windows, tuple(counts))):
            first, step = group * places * (last - 1) + axis, last - 1
            move = b.emit(slice_axis(offset.type, last, first, places, step), offset)
            positions = b.constant(start.astype(x.type.dtype.numpy), "positions")
            at = b.emit(Add(), positions, move)
            taps.append(Axis(x.type.shape[1 + axis]).emit_taps(b, at))
        rows = b.constant(np.arange(batch).reshape(-1, *(1,) * (len(counts) + 1)), "batch")
        values = emit_corners(b, part, rows, taps)
        total = reduce(lambda sum, value: b.emit(Add(), sum, value), values)
        if mask is None:
            return total
        share = b.emit(slice_axis(mask.type, last, group * places, places), mask)
        return b.emit(Mul(), total, b.emit(Reshape((batch, *counts, places, 1)), share))

    def _product(self) -> Conv:
        """Windows laid out as [N, positions, kernel places, C] times the weight."""
        return Conv((1, 1), (0, 0, 0, 0), (1, 1), self.groups)


def _starts(windows: Windows, counts: tuple[int, ...]) -> list[Array]:
    """Where the kernel places of each window lie along each axis, as [out…, kernel places]."""
    rank = len(counts)
    found = []
    for axis, place in enumerate(np.indices(windows.kernel).reshape(rank, -1)):
        first = np.arange(counts[axis]) * windows.strides[axis] - windows.begins[axis]
        spread = first.reshape(-1, *(1,) * (rank - axis))
        found.append((spread + place * windows.dilations[axis]).astype(np.float32))
    return found
