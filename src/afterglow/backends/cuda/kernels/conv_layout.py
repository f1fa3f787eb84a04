"""Convolutions as products: rows are places of results, columns channels, terms window elements."""

from __future__ import annotations

import math
from functools import cached_property

from afterglow.backends.cuda.kernels.tile import LEAST_TERMS, Extents
from afterglow.backends.cuda.kernels.tile_cost import VECTOR, Work
from afterglow.backends.cuda.kernels.tile_plans import moved_bytes, power_of_two
from afterglow.backends.cuda.kernels.tile_results import read_by_element
from afterglow.backends.job import Job
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.convolution import Convolution
from afterglow.ops.windows import Windows
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import u8


@dataclass(frozen=True)
class ConvOperands:
    """What a convolution, or a transposed one, reads and writes."""

    step: OpInstr

    @cached_property
    def x(self) -> Buffer:
        """What the windows slide over, or what is spread."""
        return self.step.operand(0)

    @cached_property
    def weight(self) -> Buffer:
        """The weight."""
        return self.step.operand(1)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self.step.outs[0].type.shape

    @cached_property
    def groups(self) -> int:
        """Groups of channels."""
        assert isinstance(self.step.op, Convolution)
        return self.step.op.groups


@dataclass(frozen=True)
class ConvLayout(ConvOperands):
    """What a convolution multiplies, and how that lies in memory.

    Terms are taken in blocks of channels at one place of the windows. Where channels are few, the
    places of a window along the last axis are taken at once, as the line in memory that they are.
    """

    @cached_property
    def windows(self) -> Windows:
        """The geometry of the windows."""
        assert isinstance(self.step.op, Convolution)
        return self.step.op.windows(self.weight.type.shape)

    @cached_property
    def spatial(self) -> tuple[int, ...]:
        """The extents along which windows slide."""
        return self.x.type.shape[1:-1]

    @cached_property
    def channels(self) -> int:
        """Channels of x that a result is made of."""
        return self.weight.type.shape[-1]

    @cached_property
    def is_depthwise(self) -> bool:
        """Whether every channel of the result is made of one of x, by itself."""
        return self.channels == 1 < self.groups == self.shape[-1]

    @cached_property
    def taps(self) -> int:
        """Places of a window."""
        return math.prod(self.windows.kernel)

    @cached_property
    def extents(self) -> Extents:
        """Rows and columns of a group, and the elements of a window."""
        rows, columns = math.prod(self.shape[:-1]), self.shape[-1] // self.groups
        return Extents(rows, columns, self.taps * self.channels, self.groups)

    @cached_property
    def is_constant(self) -> bool:
        """Whether the weight is known when the program is compiled."""
        return self.weight.root.region is Region.CONSTANT

    @cached_property
    def step_strides(self) -> tuple[int, ...]:
        """How far apart in x neighbouring windows lie along each axis, and images."""
        first, *spatial = self.x.strides[:-1]
        return (first, *(s * n for s, n in zip(spatial, self.windows.strides, strict=True)))

    @cached_property
    def begin(self) -> int:
        """How far in front of an image its first window begins."""
        pairs = zip(self.windows.begins, self.x.strides[1:-1], strict=True)
        return sum(begin * stride for begin, stride in pairs)

    @cached_property
    def line(self) -> int:
        """Terms of a block that is a line of places along the last axis; 0 if none is."""
        *_, along, own = self.x.strides
        dense = own == 1 and along == self.x.type.shape[-1]
        plain = dense and self.groups == 1 and self.windows.dilations[-1] == 1
        if not plain or not self.is_constant or self.channels >= LEAST_TERMS:
            return 0
        line = power_of_two(max(self.line_elements, self.least_terms))
        return line if line <= self.windows.kernel[-1] * self.least_terms else 0

    @cached_property
    def line_elements(self) -> int:
        """Elements of a line of places."""
        return self.windows.kernel[-1] * self.channels

    @cached_property
    def least_terms(self) -> int:
        """Terms of the smallest block."""
        return LEAST_TERMS * (2 if self.x.type.dtype.itemsize == 1 else 1)

    @property
    def lead(self) -> int:
        """Elements to read in front of each line, so that it begins at a multiple of a vector."""
        return self.line_vector[0]

    @cached_property
    def line_vector(self) -> tuple[int, int]:
        """Elements in front of each line, and those of a vector."""
        along, size = self.spatial[-1] * self.channels, self.x.type.dtype.itemsize
        common = math.gcd(VECTOR // size, along, *self.step_strides)
        begin = self.windows.begins[-1] * self.channels
        while common > 1:
            lead = -begin % common
            if self.line_elements + lead <= self.line:
                return lead, common
            common //= 2
        return 0, 1

    def work(self, job: Job) -> Work:
        """What its time depends on."""
        size, extents = self.x.type.dtype.itemsize, self.extents

        def copied(terms: int) -> int:
            columns = extents.columns * extents.count
            return columns * self.steps(terms) * terms * size if self.packs(terms) else 0

        return Work(
            extents,
            self.channels,
            self.steps,
            (size, size),
            moved_bytes(job),
            sum(b.type.dtype.itemsize for b in read_by_element(job)),
            self._vector,
            self.line,
            self.least_terms,
            copied,
            self.weight.type.nbytes,
        )

    @property
    def _vector(self) -> int:
        """Bytes of x that are read at once."""
        size = self.x.type.dtype.itemsize
        if not self.line:
            return math.gcd(VECTOR, self.channels * size)
        return self.line_vector[1] * size

    def blocks(self, terms: int) -> int:
        """Blocks of channels at one place of a window."""
        return -(-self.channels // terms)

    def steps(self, terms: int) -> int:
        """Iterations over blocks of so many terms."""
        if self.line:
            return self.taps // self.windows.kernel[-1]
        return self.taps * self.blocks(terms)

    def packs(self, terms: int) -> bool:
        """Whether the weight is read from a copy that has zeros behind each block.

        Tensor cores take bytes with a sign: others are copied as such.
        """
        if not self.is_constant:
            return False
        whole = self.channels % terms == 0 and self.weight.is_dense
        return bool(self.line) or not whole or self.weight.type.dtype is u8

    def reaches_beyond(self, axis: int) -> bool:
        """Whether some windows see padding along a spatial axis."""
        windows, count = self.windows, self.shape[1 + axis]
        last = (count - 1) * windows.strides[axis] - windows.begins[axis] + windows.reach[axis]
        return windows.begins[axis] > 0 or last > self.spatial[axis]
