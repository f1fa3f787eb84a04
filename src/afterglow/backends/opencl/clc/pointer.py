"""Elements in memory, as kernels in OpenCL C read and write them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from afterglow.backends.items.types import computed
from afterglow.backends.opencl.clc.narrow import decode, encode
from afterglow.backends.opencl.clc.types import literal, spell_in_memory
from afterglow.backends.opencl.clc.value import Value
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, boolean, f16

if TYPE_CHECKING:
    from afterglow.backends.opencl.clc.code import Code


@dataclass(frozen=True)
class Pointer:
    """Elements in memory, by the name of a pointer to the first.

    `held` is their type in memory, where that is not the one that is read and written.
    """

    code: Code
    dtype: DType
    name: str
    space: str = "__global"
    held: DType | None = None

    @property
    def numbers(self) -> Pointer:
        """The same elements to compute with: floats of 16 bits are read and written as f32."""
        wide = computed(self.dtype)
        return self if wide is self.dtype else replace(self, dtype=wide, held=self.dtype)

    @property
    def _codes(self) -> Pointer:
        """The elements as they are in memory."""
        return replace(self, dtype=self.held or self.dtype, held=None)

    @property
    def _is_half(self) -> bool:
        """Whether the device's own functions convert: quickly, if they are instructions."""
        return self.held is f16 and self.code.inlines

    def shifted(self, place: Value) -> Pointer:
        """The elements from a place on."""
        name = self.code.fresh("q")
        kind = spell_in_memory(self.held or self.dtype)
        self.code.perform(f"{self.space} {kind}* {name} = {self.name} + {place.text};")
        return replace(self, name=name)

    def load(self, place: Value | int = 0, lanes: int = 1) -> Value:
        """The element at a place, or several in a row."""
        where = place.text if isinstance(place, Value) else str(place)
        if self._is_half:
            return self.code.define(self._half("vload_half", lanes, "0", where), self.dtype, lanes)
        if self.held is not None:
            return decode(self._codes.load(place, lanes))
        if lanes > 1:
            text = f"vload{lanes}(0, {self.name} + {where})"
            if not self.code.inlines:
                text = self._as_vector(where, lanes)
            if self.dtype is boolean:
                text = f"convert_int{lanes}({text}) != 0"
            return self.code.define(text, self.dtype, lanes)
        text = f"{self.name}[{where}]"
        if self.dtype is boolean:
            text = f"{text} != 0"
        return self.code.define(text, self.dtype)

    def load_where(self, condition: Value, place: Value) -> Value:
        """The element at a place where a condition holds, else zero; then nothing is read."""
        element, zero = f"{self.name}[{place.text}]", literal(self.dtype, 0)
        if self._is_half:
            element = self._half("vload_half", 1, "0", place.text)
        elif self.held is not None:
            return decode(self._codes.load_where(condition, place))
        return self.code.define(f"{condition.text} ? {element} : {zero}", self.dtype)

    def store(self, value: Value, place: Value | int = 0) -> None:
        """Write an element, or several in a row."""
        where = place.text if isinstance(place, Value) else str(place)
        if self._is_half:
            stored = self._half("vstore_half", value.lanes, f"{value.text}, 0", where, "_rte")
            self.code.perform(f"{stored};")
        elif self.held is not None:
            self._codes.store(encode(value, self.held), place)
        elif value.lanes > 1:
            text = value.text
            if self.dtype is boolean:
                text = f"convert_uchar{value.lanes}({text} & 1)"
            if self.code.inlines:
                self.code.perform(f"vstore{value.lanes}({text}, 0, {self.name} + {where});")
            else:
                self.code.perform(f"{self._as_vector(where, value.lanes)} = {text};")
        else:
            cast = "(uchar)" if self.dtype is boolean else ""
            self.code.perform(f"{self.name}[{where}] = {cast}{value.text};")

    def _half(self, name: str, lanes: int, first: str, where: str, mode: str = "") -> str:
        """A call of a function that every device has for f16 in memory, and f32 in registers."""
        width = "" if lanes == 1 else str(lanes)
        return f"{name}{width}{mode}({first}, ({self.space} half*)({self.name} + {where}))"

    def _as_vector(self, where: str, lanes: int) -> str:
        """Elements in a row as a vector in memory, which need be aligned no better than one."""
        kind = spell_in_memory(self.dtype)
        aligned = f"__attribute__((aligned({self.dtype.itemsize})))"
        near = self.code.helper(
            f"near_{kind}{lanes}", f"typedef {kind}{lanes} near_{kind}{lanes} {aligned};"
        )
        return f"*({self.space} {near}*)({self.name} + {where})"
