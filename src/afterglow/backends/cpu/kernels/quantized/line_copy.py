"""Copies of the lines of x that one line of the result reads: short, where a copy of x is long.

A line is a row of pixels with all their channels, or some rows of a matrix.
"""

from __future__ import annotations

import math

from afterglow.backends.cpu.kernels.quantized.copying import Copying
from afterglow.backends.cpu.kernels.quantized.dots import QUAD
from afterglow.backends.cpu.kernels.quantized.problem import ByteReading, operands, reading_of_conv
from afterglow.backends.cpu.llvm.emitter import Pointer, Value
from afterglow.backends.cpu.micro.kernel import Phase, Storage
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.instr import OpInstr, row_major
from afterglow.ops.quantized import QuantizedConv
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType

NAME = "lines"
"""The name of the memory."""


@dataclass(frozen=True)
class LineCopy:
    """The lines of x that a line of the result reads, copied with their padding.

    `lines` says where the first of them lies, counted in lines of x with its padding, and `taps`
    where the others do.
    """

    reading: ByteReading
    lines: Axes
    taps: Axes

    @staticmethod
    def of_conv(step: OpInstr, op: QuantizedConv, dtype: DType) -> LineCopy:
        """What a line of pixels of a convolution reads, in an element type."""
        _, weight = operands(step)
        reading = reading_of_conv(step, op, dtype)
        strides = row_major(reading.shape[:-2])
        jumps = (strides[0], *_products(strides[1:], op.strides))
        holes = _products(strides[1:], op.dilations)
        leading = step.outs[0].type.shape[:-2]
        return LineCopy(reading, Axes.merged(leading, jumps), Axes(weight.type.shape[1:-2], holes))

    @property
    def size(self) -> int:
        """Elements of a line."""
        return math.prod(self.reading.shape[-2:])

    @property
    def count(self) -> int:
        """Lines that are copied."""
        return math.prod(self.taps.extents)

    @property
    def strides(self) -> tuple[int, ...]:
        """How far apart the lines lie in the copy, along the axes of `taps`."""
        return row_major((*self.taps.extents, self.size))[:-1]

    @property
    def storage(self) -> dict[str, Storage]:
        """Memory of a thread: whoever reads the last elements may read more."""
        return {NAME: Storage(self.reading.dtype, self.count * self.size + QUAD)}

    def writer(self, p: Phase) -> LineCopying:
        """What writes it in a phase. Ask before loops."""
        return LineCopying(self, Copying(p, self.reading), p.scratch(NAME))


@dataclass(frozen=True)
class LineCopying:
    """Writes copies of lines in a phase."""

    lines: LineCopy
    copying: Copying
    pointer: Pointer
    """Where they lie."""

    def write(self, line: Value) -> None:
        """Copy what a line of the result reads."""
        e, own = self.copying.e, self.lines
        first = e.index(own.lines.offset(line))
        with e.loop(own.count, name="copy") as tap:
            at = e.index(first + own.taps.offset(tap))
            self.copying.write_line(at, self.pointer + tap * own.size)


def _products(strides: tuple[int, ...], factors: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(s * n for s, n in zip(strides, factors, strict=False))
