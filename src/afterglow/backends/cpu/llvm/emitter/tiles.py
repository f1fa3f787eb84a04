"""Registers that hold matrices: x86's AMX, eight tiles of at most 16 rows of 64 bytes.

How many rows and bytes each tile has is a state of the thread, loaded from memory before the first
use. Instructions name their registers; nothing allocates them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.backends.cpu.llvm.emitter.code import Code
from afterglow.backends.cpu.llvm.emitter.pointer import Pointer
from afterglow.types import Array, DType
from afterglow.types.dtype import bf16, u8

TILES = 8
"""The number of tile registers."""
TILE_ROWS = 16
"""Rows of a tile at most."""
TILE_BYTES = 64
"""Bytes of a row at most."""
_PRODUCTS = {u8: "tdpbusd", bf16: "tdpbf16ps"}
_PALETTE = 1
_ROW_BYTES_AT, _ROWS_AT, _SHAPES_BYTES = 16, 48, 64


def tile_shapes(shapes: Sequence[tuple[int, int]]) -> Array:
    """The 64 bytes that say how many rows, and bytes of a row, each tile has."""
    data = np.zeros(_SHAPES_BYTES, np.uint8)
    data[0] = _PALETTE
    for tile, (rows, row_bytes) in enumerate(shapes):
        data[_ROW_BYTES_AT + 2 * tile] = row_bytes
        data[_ROWS_AT + tile] = rows
    return data


def set_tile_shapes(shapes: Pointer) -> None:
    """Give all tiles the shapes that lie in memory, and zeros as elements."""
    shapes.code.perform(f"call void @llvm.x86.ldtilecfg({shapes.operand()})")


def release_tiles(code: Code) -> None:
    """Give the tiles up, so that the system need not save them."""
    code.perform("call void @llvm.x86.tilerelease()")


def load_tile(tile: int, place: Pointer, row_bytes: int) -> None:
    """Load a tile from memory, where its rows lie some bytes apart; with 0, all are the first."""
    _move("tileloadd64", tile, place, row_bytes)


def store_tile(tile: int, place: Pointer, row_bytes: int) -> None:
    """Store a tile to memory, its rows some bytes apart."""
    _move("tilestored64", tile, place, row_bytes)


def add_tile_product(code: Code, dtype: DType, total: int, a: int, b: int) -> None:
    """Add the product of two tiles whose rows have words of 32 bits to a third tile.

    With n elements in a word, element (m, j) of the total grows by the sum over k and i of
    a[m, n k + i] b[k, n j + i]. Tiles of u8 and i8 (`dtype` u8) are added to i32, exactly; those of
    bf16 to f32, with subnormal numbers taken for zero.
    """
    code.perform(f"call void @llvm.x86.{_PRODUCTS[dtype]}(i8 {total}, i8 {a}, i8 {b})")


def _move(name: str, tile: int, place: Pointer, row_bytes: int) -> None:
    operands = f"i8 {tile}, ptr {place.address()}, i64 {row_bytes}"
    place.code.perform(f"call void @llvm.x86.{name}({operands})")
