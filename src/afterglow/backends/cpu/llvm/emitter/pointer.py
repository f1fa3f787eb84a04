"""Memory: typed pointers, with loads and stores of scalars and vectors."""

from __future__ import annotations

from math import gcd

from afterglow.backends.cpu.llvm.emitter.code import Code
from afterglow.backends.cpu.llvm.emitter.conversion import convert
from afterglow.backends.cpu.llvm.emitter.value import Value
from afterglow.backends.cpu.llvm.types import mangle, spell_in_memory
from afterglow.types.dtype import DType, boolean, u8
from afterglow.types.extent import RangedExtent

Index = Value | int
"""How many elements; a Python number where it is known while the code is being written."""


class Pointer:
    """The address of elements of one type, `offset` of them past `text`.

    `align` is the number of bytes that the address before the offset is a multiple of.
    """

    __slots__ = ("align", "code", "dtype", "offset", "text")

    def __init__(
        self, code: Code, dtype: DType, text: str, offset: int = 0, align: int | None = None
    ) -> None:
        self.code = code
        self.dtype = dtype
        self.text = text
        self.offset = offset
        self.align = align or dtype.itemsize

    def __add__(self, count: Index) -> Pointer:
        """The address of an element further on."""
        if type(count) is int:
            return Pointer(self.code, self.dtype, self.text, self.offset + count, self.align)
        if isinstance(count, RangedExtent):
            count = Value.of(self.code, self.code.index_type, count)
        known = count.constant if isinstance(count, Value) else count
        if known is not None:
            total = self.offset + int(known)
            return Pointer(self.code, self.dtype, self.text, total, self.align)
        assert isinstance(count, Value)
        place = convert(count, self.code.index_type)
        moved = self.code.define(self._step(self.text, place.typed), "p")
        return Pointer(self.code, self.dtype, moved, self.offset)

    def cast(self, dtype: DType) -> Pointer:
        """The same address, of elements of another type."""
        return Pointer(self.code, dtype, self.address(), 0, self.known_align)

    def aligned(self, align: int) -> Pointer:
        """The same address, of which the caller knows that it is a multiple of `align` bytes."""
        return Pointer(self.code, self.dtype, self.address(), 0, align)

    def settled(self) -> Pointer:
        """The same address, of which LLVM does not ask how it came about.

        Where many addresses in loops follow from one, that would be most of its work.
        """
        name = self.code.define(f"freeze ptr {self.address()}", "p")
        return Pointer(self.code, self.dtype, name, 0, self.known_align)

    @property
    def known_align(self) -> int:
        """What the address is a multiple of, in bytes, as far as is known."""
        return gcd(self.align, self.offset * self.dtype.itemsize) or self.align

    def address(self) -> str:
        """LLVM's name of the address."""
        if self.offset == 0:
            return self.text
        place = f"{mangle(self.code.index_type)} {self.offset}"
        return self.code.define(self._step(self.text, place), "p")

    def operand(self, align: int | None = None) -> str:
        """The address as the operand of an intrinsic."""
        return f"ptr align {align or self.known_align} {self.address()}"

    def load(
        self,
        index: Index = 0,
        lanes: int = 1,
        *,
        align: int | None = None,
        in_order: bool = False,
    ) -> Value:
        """Neighbouring elements, from the index on.

        Loads that are to be `in_order` are not moved past each other: where they would be moved
        up, they may take more registers than there are.
        """
        place = self + index
        memory = spell_in_memory(self.dtype, lanes)
        boundary = align or place.known_align
        kind = "load volatile" if in_order else "load"
        text = f"{kind} {memory}, ptr {place.address()}, align {boundary}"
        return from_memory(self, self.code.define(text), lanes)

    def store(
        self,
        value: Value,
        index: Index = 0,
        *,
        align: int | None = None,
        streaming: bool = False,
        in_order: bool = False,
    ) -> None:
        """Write neighbouring elements; `streaming` past the caches, `in_order` as of `load`."""
        place = self + index
        stored = to_memory(self, value)
        boundary = align or place.known_align
        hint = ", !nontemporal !0" if streaming else ""
        kind = "store volatile" if in_order else "store"
        self.code.perform(f"{kind} {stored.typed}, ptr {place.address()}, align {boundary}{hint}")

    def broadcast(self, index: Index, lanes: int) -> Value:
        """One element, in all lanes."""
        return self.load(index).splat(lanes)

    def prefetch(self, index: Index = 0, *, locality: int = 3, write: bool = False) -> None:
        """Bring a line into the caches: of all levels (3), from the second (2) or third (1) on.

        The address need not be one that may be read.
        """
        place = (self + index).address()
        arguments = f"ptr {place}, i32 {int(write)}, i32 {locality}, i32 1"
        self.code.perform(f"call void @llvm.prefetch.p0({arguments})")

    def _step(self, base: str, place: str) -> str:
        return f"getelementptr {spell_in_memory(self.dtype)}, ptr {base}, {place}"

    def __repr__(self) -> str:
        return f"<{self.dtype} at {self.text} + {self.offset}>"


def from_memory(pointer: Pointer, name: str, lanes: int) -> Value:
    """What was loaded, as a register holds it: booleans are bytes in memory."""
    if pointer.dtype is boolean:
        return convert(Value(pointer.code, u8, lanes, name), boolean)
    return Value(pointer.code, pointer.dtype, lanes, name)


def to_memory(pointer: Pointer, value: Value) -> Value:
    """A value as memory holds it."""
    if value.dtype is not pointer.dtype:
        raise TypeError(f"{value.dtype} is stored where {pointer.dtype} lies")
    return convert(value, u8) if value.dtype is boolean else value
