"""Packed constants: arrays that are written once, into the memory that they are run from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array


@dataclass(frozen=True, eq=False)
class Packing:
    """An array that is not written yet: `write` fills memory of this shape and element type.

    Whoever has the memory may write several at once, and need not have any of them twice.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    write: Callable[[Array], object]
    rows: int = 0
    """How many rows of the source an entry of the first axis holds; 0 if it holds parts of all."""

    @staticmethod
    def of(array: Array) -> Packing:
        """An array as it is, to be copied without gaps."""
        return Packing(array.shape, array.dtype, lambda made: np.copyto(made, array))

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def write_to(self, memory: Array) -> None:
        """Fill the first bytes of some memory, which begins where the elements may."""
        self.write(memory[: self.nbytes].view(self.dtype).reshape(self.shape))

    def array(self) -> Array:
        """The array in memory of its own."""
        made = np.empty(self.shape, self.dtype)
        self.write(made)
        return made


Pack: TypeAlias = Callable[[Array], Array | Packing]
"""Puts a constant into the order in which a kernel reads it."""


def fill_panels(made: Array, columns: Array, axis: int) -> None:
    """Write panels [batch…, panel, depth…, width] of columns [batch…, column, depth…].

    `axis` is the number of axes of the batch. The last panel is filled with zeros.
    """
    width = made.shape[-1]
    whole, rest = divmod(columns.shape[axis], width)
    batch = (slice(None),) * axis
    shape = (*columns.shape[:axis], whole, width, *columns.shape[axis + 1 :])
    cut = columns[(*batch, slice(whole * width))].reshape(shape)
    made[(*batch, slice(whole))] = np.moveaxis(cut, axis + 1, -1)
    if whole < made.shape[axis]:
        last = made[(*batch, whole)]
        last[..., :rest] = np.moveaxis(columns[(*batch, slice(whole * width, None))], axis, -1)
        last[..., rest:] = 0
