"""Typed memory: buffers, and views of parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from afterglow.support.names import spell
from afterglow.types import Array, FillLevel, Quantization, TensorType
from afterglow.types.extent import largest
from afterglow.types.later import LaterArray, array_of


class Access(Enum):
    """What an instruction does with an operand."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    SCRATCH = "scratch"

    @property
    def reads(self) -> bool:
        """Whether the operand's content matters."""
        return self in (Access.IN, Access.INOUT)

    @property
    def writes(self) -> bool:
        """Whether the operand's content changes."""
        return self is not Access.IN


class Region(Enum):
    """Where a buffer lives."""

    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "const"
    STATE = "state"
    ARENA = "alloc"
    LOCAL = "local"


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a tensor stored without gaps, last axis fastest."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides)) if shape else ()


class Buffer:
    """A piece of memory that holds a tensor: a whole buffer, or a view of one.

    A view has a `base`, and says where in it element 0 lies (`start`) and how far apart its
    elements lie along each axis (`strides`), both counted in elements of its own type.
    """

    def __init__(
        self,
        name: str,
        type: TensorType,
        region: Region,
        *,
        base: Buffer | None = None,
        start: int = 0,
        strides: Sequence[int] | None = None,
        data: Array | LaterArray | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.region = region
        self.base = base
        self.start = start
        self.strides = row_major(type.shape) if strides is None else tuple(strides)
        self.content = data
        """The array of a constant, or how it follows from another."""
        self.address: int | None = None
        """Byte offset in the arena, once planned; of whole buffers in the arena only."""
        self.memory = ""
        """Which arena that is, where a program has several; the only one has no name."""
        self.donated = False
        """Whether the caller donates an input: once read, it may be overwritten."""
        self.level: FillLevel | None = None
        """How far a state is filled that grows."""
        self.quantization: Quantization | None = None
        """What the integers of an input or output stand for, to callers."""

    @property
    def data(self) -> Array | None:
        """The array of a constant, in memory for as long as somebody holds it."""
        return None if self.content is None else array_of(self.content)

    @data.setter
    def data(self, data: Array) -> None:
        self.content = data

    @property
    def root(self) -> Buffer:
        """The whole buffer that it is part of, or itself."""
        return self if self.base is None else self.base

    @property
    def is_view(self) -> bool:
        """Whether it is part of another buffer."""
        return self.base is not None

    @property
    def is_reusable(self) -> bool:
        """Whether something else may lie in it once nobody needs what it holds."""
        return self.region is Region.ARENA or self.root.donated

    @property
    def is_dense(self) -> bool:
        """Whether its elements lie one after the other."""
        dense = row_major(self.type.shape)
        extents = zip(self.type.shape, self.strides, dense, strict=True)
        return largest(self.type.size) <= 1 or all(n == 1 or s == d for n, s, d in extents)

    @property
    def covers_root(self) -> bool:
        """Whether it is all of its buffer, in whatever shape."""
        size, room = self.type.dtype.itemsize, self.root.type.dtype.itemsize
        return self.type.size * size == self.root.type.size * room and self.is_dense

    def placed_in(self, base: Buffer) -> Buffer:
        """The same part of another whole buffer, under the same name."""
        return Buffer(
            self.name, self.type, base.region, base=base, start=self.start, strides=self.strides
        )

    def along(self, shape: Sequence[int], strides: Sequence[int]) -> Buffer:
        """The same memory along other axes: permuted, say, or with a stride of 0 for a new one."""
        return Buffer(
            self.name,
            self.type.with_shape(shape),
            self.region,
            base=self.root,
            start=self.start,
            strides=strides,
        )

    def broadcast(self, shape: Sequence[int]) -> Buffer:
        """The buffer in the shape that it broadcasts to, by strides of 0."""
        own = zip(self.type.shape, self.strides, strict=True)
        strides = [0 if extent == 1 else stride for extent, stride in own]
        return self.along(shape, [0] * (len(shape) - len(strides)) + strides)

    def of(self, memory: Array) -> Array:
        """The array that it is, given its root's elements as a flat array of its own type."""
        if self.is_dense:
            return memory[self.start : self.start + self.type.size].reshape(self.type.shape)
        size = memory.dtype.itemsize
        native = memory.dtype.isbuiltin != 2  # NumPy strides only its own types
        carrier = memory if native else memory.view(f"u{size}")
        strided = np.lib.stride_tricks.as_strided(
            carrier[self.start :], self.type.shape, [stride * size for stride in self.strides]
        )
        return strided if native else strided.view(memory.dtype)

    def __str__(self) -> str:
        shared = self.region in (Region.CONSTANT, Region.STATE) and not self.is_view
        return spell("@" if shared else "%", self.name)

    def __repr__(self) -> str:
        return f"<{self.region.value} {self}: {self.type}>"
