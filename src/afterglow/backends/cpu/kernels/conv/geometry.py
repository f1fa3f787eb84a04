"""A convolution as a matrix product: a row for each pixel, a column for each channel."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afterglow.backends.broadcast import Strides
from afterglow.backends.cpu.micro.rows import Axes, pixel_axes
from afterglow.instr import OpInstr, row_major
from afterglow.ops.convolution import Conv
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Geometry:
    """Where the windows of a convolution lie in x, whose padding is part of it.

    An element of a window lies at the sum of an offset of its pixel, one of its tap, and one of
    its group. `inner` and `results` are the channels of a group: of x, and of the result.
    """

    groups: int
    inner: int
    results: int
    pixels: Axes
    taps: Axes
    group_stride: int

    @staticmethod
    def of(step: OpInstr, strides: Strides) -> Geometry:
        """The geometry of a step, for x with these strides, its padding in memory."""
        conv, weight, result = conv_of(step), _shape(step, 1), step.outs[0].type.shape
        spatial = strides[1:-1]
        jumps = (strides[0], *_products(spatial, conv.strides))
        taps = (*_products(spatial, conv.dilations), strides[-1])
        inner = weight[-1]
        return Geometry(
            conv.groups,
            inner,
            weight[0] // conv.groups,
            pixel_axes(result[:-1], jumps),
            Axes.merged(weight[1:], taps),
            inner * strides[-1],
        )

    @property
    def depth(self) -> int:
        """The products that are summed for an element of the result."""
        return math.prod(self.taps.extents)

    @property
    def rows(self) -> int:
        """The pixels of the result."""
        return math.prod(self.pixels.extents)

    @property
    def work(self) -> float:
        """FLOPs of all products."""
        return 2.0 * self.rows * self.depth * self.results * self.groups


def conv_of(step: OpInstr) -> Conv:
    """The op of a step that is a convolution."""
    assert isinstance(step.op, Conv)
    return step.op


def padded_shape(step: OpInstr) -> tuple[int, ...]:
    """The shape of x with the padding that its windows see."""
    batch, *extents, channels = _shape(step, 0)
    windows = conv_of(step).windows(_shape(step, 1))
    sides = zip(windows.begins, extents, windows.needed_ends(extents), strict=True)
    return (batch, *map(sum, sides), channels)


def padded_strides(step: OpInstr) -> Strides:
    """The strides of x once its padding is in memory."""
    return row_major(padded_shape(step))


def _shape(step: OpInstr, operand: int) -> tuple[int, ...]:
    return step.required[operand].type.shape


def _products(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return tuple(x * y for x, y in zip(a, b, strict=True))
