"""What makes interpreting bearable: objects of Triton that are made for every value are copied.

A kernel makes thousands of blocks of a few shapes. Triton derives several objects of each shape
anew, which takes longer than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.runtime import interpreter

from afterglow.backends.cuda.emulator.builder import numpy_type

Change = tuple[Any, str, Any]


def shortcuts() -> list[Change]:
    """Attributes of Triton, and what they are instead while kernels are interpreted."""
    return [
        (tl.block_type, "__init__", _block_type_maker(tl.block_type.__init__)),
        (tl.tensor, "__init__", _tensor_maker(tl.tensor.__init__)),
        (interpreter, "_get_np_dtype", numpy_type),
    ]


def _block_type_maker(make: Callable[..., None]) -> Callable[..., None]:
    """Types of blocks from those of the same shape and element type."""
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    shapes: dict[tuple[int, ...], Any] = {}

    def init(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple([s.value if isinstance(s, tl.constexpr) else s for s in shape])
        key = (str(element_ty), *sizes)
        facts = known.get(key)
        if facts is None:
            make(self, element_ty, shape)
            # one object for each shape, so that equal shapes are found at a glance
            self.shape = shapes.setdefault(sizes, self.shape)
            known[key] = {**vars(self)}
        else:
            vars(self).update(facts)
            self.element_ty = element_ty

    return init


def _tensor_maker(make: Callable[..., None]) -> Callable[..., None]:
    """Values from those of the same shape."""
    known: dict[int, tuple[Any, dict[str, Any]]] = {}

    def init(self: Any, handle: Any, type: Any) -> None:
        shape = type.shape if type.is_block() else None
        found = known.get(id(shape))
        if found is None or found[0] is not shape:
            make(self, handle, type)
            known[id(shape)] = shape, {**vars(self)}
            return
        vars(self).update(found[1])
        self.handle = handle
        self.type = type
        self.dtype = type.scalar

    return init
