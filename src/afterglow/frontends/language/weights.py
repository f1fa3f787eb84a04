"""Weights as files hold them: floats, or integers in blocks with scales; read when asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType
from afterglow.types.dtype import bf16, f16, f32

Unpack: TypeAlias = Callable[[Array], Array]
"""From the bytes of blocks, [blocks, bytes], to numbers or scales of each block."""


@dataclass(frozen=True)
class Format:
    """How elements are stored: `block` neighbours of a row in `nbytes` bytes.

    An element is scale * number + minimum, where every `group` neighbours share a scale and a
    minimum. Floats are their own numbers.
    """

    name: str
    block: int
    nbytes: int
    dtype: DType
    """The type that holds the numbers."""
    numbers: Unpack
    group: int = 0
    """0 for floats."""
    bits: int = 0
    """How many bits the numbers need, if fewer than their type has."""
    scales: Unpack | None = None
    scale_type: DType = f32
    minimums: Unpack | None = None

    @property
    def is_float(self) -> bool:
        """Whether elements are floats without a scale."""
        return self.scales is None


def _floats(dtype: DType) -> Format:
    return Format(dtype.name.upper(), 1, dtype.itemsize, dtype, lambda raw: raw.view(dtype.numpy))


FLOATS = {dtype.name.upper(): _floats(dtype) for dtype in (f32, f16, bf16)}
"""Formats without blocks, by name."""


@dataclass(frozen=True)
class Weight:
    """A tensor of a model: its shape, its format, and its bytes, which may be those of a file."""

    name: str
    shape: tuple[int, ...]
    format: Format
    raw: memoryview

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in its file."""
        return len(self.raw)

    def rows(self, name: str, start: int, stop: int) -> Weight:
        """Some of its rows, as a weight of their own."""
        row = self.nbytes // self.shape[0]
        shape = (stop - start, *self.shape[1:])
        return replace(self, name=name, shape=shape, raw=self.raw[start * row : stop * row])

    def numbers(self) -> Array:
        """The numbers; floats as they are, without a copy."""
        return self.format.numbers(self._blocks()).reshape(self.shape)

    def scales(self) -> Array:
        """The scale of each group of neighbours."""
        assert self.format.scales is not None
        return self._by_group(self.format.scales)

    def minimums(self) -> Array | None:
        """What is added to each group of neighbours; None if nothing is."""
        return None if self.format.minimums is None else self._by_group(self.format.minimums)

    def floats(self) -> Array:
        """The elements in f32, as the format defines them."""
        if self.format.is_float:
            return self.numbers().astype(np.float32)
        grouped = (*self.shape[:-1], -1, self.format.group)
        found = self.numbers().astype(np.float32).reshape(grouped)
        found *= self.scales().astype(np.float32)[..., None]
        minimums = self.minimums()
        if minimums is not None:
            found += minimums.astype(np.float32)[..., None]
        return found.reshape(self.shape)

    @property
    def groups(self) -> tuple[int, ...]:
        """The shape of the scales."""
        return (*self.shape[:-1], self.shape[-1] // self.format.group)

    def _blocks(self) -> Array:
        count = math.prod(self.shape) // self.format.block
        return np.frombuffer(self.raw, np.uint8).reshape(count, self.format.nbytes)

    def _by_group(self, unpack: Unpack) -> Array:
        return unpack(self._blocks()).reshape(self.groups)
