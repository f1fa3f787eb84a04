"""The geometry of a depthwise convolution of bytes."""

from __future__ import annotations

import math

import numpy as np

from afterglow.backends.cpu.kernels.quantized.problem import operands, reading_of_conv
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.backends.cpu.micro.sliding import Channels
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr
from afterglow.ops.quantized import QuantizedConv
from afterglow.types import Array
from afterglow.types.dtype import f32, i8, u8
from afterglow.types.extent import is_ranged

LEAST_IN_QUADS = 3
"""Rows of a window with which it is worth to put bytes of several rows next to each other."""
MOST_IN_QUADS = 32
"""Places of a window whose products are added four at a time: more are a loop."""


class DepthwisePlan:
    """Which elements of x the places of windows see, and in which type sums are made.

    `in_quads` says whether the products of four rows are added by one instruction.
    """

    def __init__(self, k: KernelRequest) -> None:
        op, (x, weight) = k.step.op, operands(k.step)
        assert isinstance(op, QuantizedConv)
        result = k.step.outs[0].type.shape
        self.op, self.weight = op, weight
        self.in_quads = _has_quads(k.step, op, k.target)
        self.reading = reading_of_conv(k.step, op, u8 if self.in_quads else x.type.dtype)
        self.kernel = weight.type.shape[1:-1]
        spatial = self.reading.strides[1:-1]
        jumps = [s * n for s, n in zip(spatial, op.strides, strict=True)]
        holes = [s * n for s, n in zip(spatial, op.dilations, strict=True)]
        self.lines = Axes.merged(result[:-2], (self.reading.strides[0], *jumps[:-1]))
        self.outer = Axes.merged(self.kernel[:-1], holes[:-1])
        self.jump, self.hole = jumps[-1], holes[-1]
        self.rows, self.columns = math.prod(result[:-2]), result[-2]
        self.channels = Channels.of(k.target, result[-1], f32, x.type.dtype, self.rows)
        self.padded = -(-result[-1] // self.channels.lanes) * self.channels.lanes
        self.work = 2.0 * math.prod(result) * math.prod(self.kernel)

    @property
    def width(self) -> int:
        """Places of a window along columns."""
        return self.kernel[-1]

    @property
    def height(self) -> int:
        """Rows of a window, along all other axes."""
        return math.prod(self.kernel[:-1])

    def users(self, columns: int) -> dict[int, list[tuple[int, int]]]:
        """Which columns of a tile see the elements of a row of x, and by which place: by offset."""
        found: dict[int, list[tuple[int, int]]] = {}
        for column in range(columns):
            for tap in range(self.width):
                place = column * self.jump + tap * self.hole
                found.setdefault(place, []).append((column, tap))
        return dict(sorted(found.items()))

    def starts(self, differences: Array) -> Array:
        """What the sums of each channel begin with, given the weights [places, channels].

        If the zero point of x is an operand, that is still to be multiplied by it.
        """
        zero_point = self.reading.zero_point if self.reading.zero is None else 1
        found: Array = differences.sum(0, keepdims=True) * -zero_point
        return found

    def fill(self, rows: Array) -> Array:
        """Rows of channels, with zeros up to whole vectors."""
        pads = [(0, 0)] * rows.ndim
        pads[1] = (0, self.padded - rows.shape[1])
        return np.pad(rows, pads)


def _has_quads(step: OpInstr, op: QuantizedConv, target: Target) -> bool:
    """Whether four products of bytes are added by one instruction, and windows have the rows."""
    _, weight = operands(step)
    *rows, width = weight.type.shape[1:-1]
    signed = weight.type.dtype is i8 and op.weight_zero_point == 0
    height = math.prod(rows)
    few = height >= LEAST_IN_QUADS and height * width <= MOST_IN_QUADS
    fixed = not any(map(is_ranged, step.required[0].type.shape[1:]))
    return target.dot_mixed_signs and target.has_vectors and signed and few and fixed
