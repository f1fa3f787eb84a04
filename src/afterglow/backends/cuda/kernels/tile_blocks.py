"""Blocks of numbers of places, and of elements at them, as products read them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from afterglow.backends.cuda.tl import Code, Pointer, Value
from afterglow.backends.cuda.tl.types import spell
from afterglow.backends.cuda.tl.value import Shape
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32


@dataclass(frozen=True)
class Numbers:
    """The numbers of some neighbours, as a block of one axis, and which of them there are."""

    own: Value
    """All, whether there are so many or not."""
    extent: int
    """How many there are in all."""
    exact: bool
    """Whether all of them are below the extent."""

    @property
    def code(self) -> Code:
        """Where they are computed."""
        return self.own.code

    def read(self, *, contiguous: bool, axis: int) -> tuple[Value, list[Value]]:
        """The numbers to read at, along an axis of two, and the conditions for that.

        Behind the end the last one is read again, and what comes of it not written; but where
        neighbours lie together the block is masked instead, so that it is read by vectors.
        """
        if self.exact:
            return self.along(axis), []
        if contiguous:
            return self.along(axis), [self.inside(axis)]
        near = self.code.smaller(self.own, self.extent - 1)
        return self.code.along(near, axis, 2), []

    def along(self, axis: int) -> Value:
        """The numbers along an axis of a block of two."""
        return self.code.along(self.own, axis, 2)

    def inside(self, axis: int) -> Value:
        """Whether there is such a one."""
        return self.along(axis) < self.extent


def numbers(code: Code, block: Value | int, size: int, extent: int) -> Numbers:
    """The numbers of a block of a size, of so many things."""
    own = code.named(code.range(size) + block * size)
    return Numbers(own, extent, extent % size == 0)


def load(pointer: Pointer, place: Value, masks: Iterable[Value], fill: Value | float = 0) -> Value:
    """The elements at places, and something else where a condition does not hold."""
    with ExitStack() as stack:
        for mask in masks:
            stack.enter_context(pointer.code.when(mask))
        return pointer.load(place, other=fill)


def is_between(place: Value, extent: int) -> Value:
    """Whether a place is one of so many."""
    return (place >= 0) & (place < extent)


def multiply_add(code: Code, left: Value, right: Value, total: Value, precision: str) -> None:
    """Add a product of two blocks to their sums."""
    rows, columns = total.shape
    # an operand of which the stride is 0 along an axis is read once for all places there
    terms = max(left.shape[1], right.shape[0])
    left, right = _whole(code, left, (rows, terms)), _whole(code, right, (terms, columns))
    chosen = f', input_precision="{precision}"' if left.dtype is f32 else ""
    if total.dtype.is_integer:
        chosen = f", out_dtype={spell(total.dtype)}"
    text = f"tl.dot({left.text}, {right.text}, {total.text}{chosen})"
    code.perform(f"{total.text} = {text}")


def _whole(code: Code, block: Value, shape: Shape) -> Value:
    """A block in the shape of an operand: where there is one row, all are read from it."""
    if block.shape == shape:
        return block
    return code.define(f"tl.broadcast_to({block.text}, {shape})", block.dtype, shape)
