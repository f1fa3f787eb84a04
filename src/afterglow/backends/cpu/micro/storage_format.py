"""Storage formats of packed constants: f32, or 16 bits that are widened when they are read.

Vectors of bf16 are stored in pairs, as words of 32 bits: an element of the first, and above it that
of the second. So a shift and a mask make two vectors of what one load brings.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Pointer, Value, convert, reinterpret
from afterglow.backends.cpu.micro.accumulate import LoadVector
from afterglow.backends.cpu.micro.tile import RegisterTile, sum_type
from afterglow.backends.cpu.target import Target
from afterglow.types import Array
from afterglow.types.dtype import DType, bf16, f16, f32, u32

UPPER_HALF = 0xFFFF0000
"""The bits of a word that the second vector of a pair has."""


def storage_type(dtype: DType, target: Target) -> DType:
    """The storage type of constants: their own if it is cheap to widen to f32."""
    easy = dtype is bf16 or (dtype is f16 and target.half_conversions)
    return dtype if easy else sum_type(dtype)


def has_plain_order(dtype: DType) -> bool:
    """Whether elements of a type are stored one after the other: `to_storage` changes nothing."""
    return dtype is not bf16


def to_storage(lines: Array, lanes: int, dtype: DType) -> Array:
    """Lines [..., columns] of whole vectors in storage order: vectors of bf16 in pairs."""
    paired = lines.shape[-1] // (2 * lanes) * (2 * lanes)
    if has_plain_order(dtype) or paired == 0:
        return lines
    made = lines.copy()
    pairs = lines[..., :paired].reshape(*lines.shape[:-1], -1, 2, lanes)
    made[..., :paired] = pairs.swapaxes(-1, -2).reshape(*lines.shape[:-1], paired)
    return made


def load_stored(tile: RegisterTile, dtype: DType) -> LoadVector | None:
    """How to load a vector of a line in storage order; None if the order is the usual one."""
    if has_plain_order(dtype):
        return None

    def load(line: Pointer, v: int) -> Value:
        if v == tile.vectors - 1 and v % 2 == 0:
            return convert(line.load(v * tile.lanes, tile.lanes), f32)
        words = (line + (v - v % 2) * tile.lanes).cast(u32).load(0, tile.lanes)
        return reinterpret(words & UPPER_HALF if v % 2 else words << 16, f32)

    return load
