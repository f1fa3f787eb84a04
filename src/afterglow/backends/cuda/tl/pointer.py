"""Elements in memory, as kernels in Triton's language read and write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from afterglow.backends.cuda.tl.types import computed, number_text, spell
from afterglow.backends.cuda.tl.value import Shape, Value, broadcast
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, boolean, u8

if TYPE_CHECKING:
    from afterglow.backends.cuda.tl.code import Code


@dataclass(frozen=True)
class Pointer:
    """Elements in memory, by the name of a pointer to the first.

    `numbers` are the same to compute with: floats of 16 bits are read and written as f32. No kernel
    writes what `is_constant`.
    """

    code: Code
    dtype: DType
    name: str
    widens: bool = False
    is_constant: bool = False

    @property
    def numbers(self) -> Pointer:
        """The same elements to compute with: floats of 16 bits are read and written as f32."""
        return replace(self, widens=True) if computed(self.dtype) is not self.dtype else self

    def shifted(self, place: Value) -> Pointer:
        """The elements from a place on, which is a scalar."""
        made = self.code.fresh("q")
        self.code.perform(f"{made} = {self.name} + {place.text}")
        return replace(self, name=made)

    def load(
        self, place: Value | int = 0, lanes: int = 1, *, other: Value | float = 0, options: str = ""
    ) -> Value:
        """The elements at a block of places; `other` where they are masked.

        `options` are further arguments of the load, such as `, cache_modifier=".cg"`.
        """
        assert lanes == 1
        if not self.is_constant:
            self.code.wait()
        where = place if isinstance(place, Value) else self.code.index(place)
        masks = self.code.mask_for(where.shape, exactly=False)
        text = f"{self.name} + {where.text}"
        if masks:
            joined = " & ".join(f"({mask.text})" for mask in masks)
            text += f", mask={_spread(joined, masks, where.shape)}"
            rest = other.text if isinstance(other, Value) else number_text(self.dtype, other)
            text += f", other={rest}"
        text = f"tl.load({text}{options})"
        if self.dtype is boolean:
            return self.code.define(f"{text} != 0", boolean, where.shape)
        if self.widens:
            wide = computed(self.dtype)
            return self.code.define(f"{text}.to({spell(wide)})", wide, where.shape)
        return self.code.define(text, self.dtype, where.shape)

    def load_where(self, condition: Value, place: Value) -> Value:
        """The elements at places where a condition holds, else zero; then nothing is read."""
        with self.code.when(condition):
            return self.load(place)

    def store(self, value: Value, place: Value | int = 0) -> None:
        """Write a block of elements, those for which the conditions around hold."""
        self.code.wait()
        where = place if isinstance(place, Value) else self.code.index(place)
        masks = self.code.mask_for((), exactly=True)
        shape = broadcast(where.shape, value.shape, *(mask.shape for mask in masks))
        address = f"{self.name} + {where.text}"
        if where.shape != shape:
            address += f" + tl.zeros({shape}, tl.int32)"
        held = u8 if self.dtype is boolean else self.dtype
        text = value.text if value.dtype is held else f"{value.text}.to({spell(held)})"
        mask = f", mask={' & '.join(f'({m.text})' for m in masks)}" if masks else ""
        self.code.perform(f"tl.store({address}, {text}{mask})")


def _spread(text: str, masks: Sequence[Value], shape: Shape) -> str:
    """A mask in the shape of the places that it is for."""
    own = broadcast(*(mask.shape for mask in masks))
    return text if own == shape else f"tl.broadcast_to({text}, {shape})"
