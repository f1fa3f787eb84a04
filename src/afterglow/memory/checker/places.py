"""Buffers, views of them, and what an instruction does with one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from afterglow.memory.checker.coverage import Coverage, Extent
from afterglow.memory.checker.reader import Declaration, Form, Window

_WRITTEN_BEFORE = ("input", "const", "state")
_READ_ONLY = ("input", "const")


class Buffer:
    """Memory, and what is known of it at the line that is looked at.

    `unit` is the bytes of the narrowest element in which it is seen: the grain of what is written.
    `ended` says why it cannot be used any more.
    """

    def __init__(self, declared: Declaration, unit: int) -> None:
        self.name = declared.name
        self.kind = declared.kind
        self.form = declared.form
        self.memory = declared.memory
        self.address = declared.address
        self.unit = unit
        self.written = Coverage(self.form.nbytes // unit, full=self.kind in _WRITTEN_BEFORE)
        self.is_read_only = declared.kind in _READ_ONLY and not declared.donated
        self.ended = ""

    def addresses(self) -> tuple[int, int]:
        """Its first byte in its memory, and one past the last."""
        start = self.address or 0
        return start, start + self.form.nbytes

    def place(self) -> Place:
        """All of it."""
        return Place.of(self.name, self, self.form, 0, dense_strides(self.form.shape))


@dataclass(frozen=True)
class Place:
    """A buffer or a view as an operand: which elements, and in which order.

    `order` is count and stride of each axis, two axes joined where they run on as one.
    """

    name: str
    buffer: Buffer
    extent: Extent
    element_bytes: int
    order: tuple[tuple[int, int], ...]

    @staticmethod
    def of(name: str, buffer: Buffer, form: Form, start: int, strides: Sequence[int]) -> Place:
        """The place of a view, with start and strides in elements of its own form."""
        axes = list(zip(form.shape, strides, strict=True))
        extent = Extent.of(start, axes, form.element_bytes // buffer.unit)
        return Place(name, buffer, extent, form.element_bytes, _joined(axes))

    def meets(self, other: Place) -> bool:
        """Whether they share memory."""
        return self.buffer is other.buffer and self.extent.meets(other.extent)

    def replaces(self, read: Place) -> bool:
        """Whether it may be written where the other is read, element by element."""
        if self.extent.start != read.extent.start:
            return False
        if self.element_bytes < read.element_bytes:  # never ahead of what is still to be read
            return not self.extent.outer and not read.extent.outer
        return (self.element_bytes, self.order) == (read.element_bytes, read.order)


@dataclass(frozen=True)
class Access:
    """An operand, what happens to it, and which instruction of a stack does that."""

    word: str
    place: Place
    member: int

    @property
    def reads(self) -> bool:
        """Whether what it holds matters."""
        return self.word in ("in", "inout")

    @property
    def writes(self) -> bool:
        """Whether what it holds changes."""
        return self.word != "in"

    def disturbs(self, other: Access) -> bool:
        """Whether this one spoils what the other, of the same instruction or stack, is for."""
        if not self.writes or not self.place.meets(other.place):
            return False
        if "scratch" in (self.word, other.word) or (other.writes and self.member == other.member):
            return True
        return not self.place.replaces(other.place)


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Elements that lie one after the other, last axis fastest."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def window_layout(
    window: Window, shape: Sequence[int], whole: Sequence[int]
) -> tuple[int, tuple[int, ...]] | None:
    """Start and strides of a window of a tensor of shape `whole`; None if `shape` is not its own.

    That it stays inside must be checked along each axis: a row that is too long reaches into the
    next one, and would still lie inside the buffer.
    """
    if not len(window) == len(shape) == len(whole):
        return None
    start, strides = 0, []
    for (first, stop, step), count, extent, unit in zip(
        window, shape, whole, dense_strides(whole), strict=True
    ):
        if not first < stop <= extent or len(range(first, stop, step)) != count:
            return None
        start += first * unit
        strides.append(step * unit)
    return start, tuple(strides)


def _joined(axes: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for count, stride in axes:
        if count == 1:
            continue
        if joined and joined[-1][1] == count * stride:
            joined[-1] = (joined[-1][0] * count, stride)
        else:
            joined.append((count, stride))
    return tuple(joined)
