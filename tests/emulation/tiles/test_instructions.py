"""The emulated instructions do what the manual says, and note what a processor would refuse."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from afterglow.backends.cpu import Emitter, Module, Target, load_host
from afterglow.backends.cpu.llvm.emitter import (
    Pointer,
    add_tile_product,
    load_tile,
    release_tiles,
    set_tile_shapes,
    store_tile,
    tile_shapes,
)
from afterglow.types import Array
from afterglow.types.dtype import DType, bf16, i32, u8
from tests.emulation.tiles.instructions import EmulatedTiles

HOST = Target.host()
Shapes = list[tuple[int, int]]
Write = Callable[[Emitter, list[Pointer]], None]
ROWS, WORDS, COLUMNS = 5, 3, 7
SHAPES: Shapes = [(ROWS, 4 * COLUMNS), (ROWS, 4 * WORDS), (WORDS, 4 * COLUMNS)]


def run(write: Write, shapes: Array, *arrays: Array) -> EmulatedTiles:
    """Run code that is given shapes of tiles, and arrays as bytes."""
    module = Module(HOST)
    given = (shapes, *arrays)
    with module.function("kernel") as e:
        write(e, [e.pointer(f"x{i}", u8) for i in range(len(given))])
    tiles = EmulatedTiles()
    library = load_host(tiles.compile(module, HOST), module.exports, HOST)
    call = library.function("kernel", *[ctypes.c_void_p] * len(given))
    call(*(array.ctypes.data for array in given))
    return tiles


def multiply(dtype: DType, a: Array, b: Array, total: Array, shapes: Shapes) -> EmulatedTiles:
    """Add the product of two tiles that lie in memory without gaps to a third."""

    def write(e: Emitter, given: list[Pointer]) -> None:
        set_tile_shapes(given[0])
        for tile, (place, (_, row_bytes)) in enumerate(zip(given[1:], shapes, strict=True)):
            load_tile(tile, place, row_bytes)
        add_tile_product(e, dtype, 0, 1, 2)
        store_tile(0, given[1], shapes[0][1])
        release_tiles(e)

    return run(write, tile_shapes(shapes), total, a, b)


def test_bytes_are_multiplied_exactly() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (ROWS, 4 * WORDS)).astype(np.uint8)
    b = rng.integers(-128, 128, (WORDS, COLUMNS, 4)).astype(np.int8)
    a[0], b[:, 0] = 255, -128
    total = rng.integers(-(2**31), 2**31, (ROWS, COLUMNS)).astype(np.int32)
    columns = b.transpose(0, 2, 1).reshape(4 * WORDS, COLUMNS).astype(np.int32)
    wanted = total + a.astype(np.int32) @ columns
    tiles = multiply(u8, a, b, total, SHAPES)
    tiles.check()
    np.testing.assert_array_equal(total, wanted)
    assert [tiles.count(name) for name in ("ldtilecfg", "tileloadd64", "tdpbusd")] == [1, 3, 1]
    assert tiles.count("multiplied rows") == ROWS


def test_even_and_odd_products_of_bf16_are_summed_apart() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((ROWS, WORDS, 2)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((WORDS, COLUMNS, 2)).astype(ml_dtypes.bfloat16)
    total = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    exact = np.einsum("mki,kni->imn", a.astype(np.float64), b.astype(np.float64))
    wanted = total + exact.astype(np.float32).sum(0)
    multiply(bf16, a, b, total, SHAPES).check()
    np.testing.assert_allclose(total, wanted, rtol=1e-5, atol=1e-6)


def test_subnormal_numbers_of_bf16_count_as_zero() -> None:
    a, b = (
        np.zeros(shape, ml_dtypes.bfloat16) for shape in ((ROWS, WORDS, 2), (WORDS, COLUMNS, 2))
    )
    a[:] = 1e-39
    b[:] = 1e30
    total = np.full((ROWS, COLUMNS), 1e-40, np.float32)
    multiply(bf16, a, b, total, SHAPES).check()
    assert not total.any()


def test_rows_lie_apart_and_what_is_behind_them_is_left_alone() -> None:
    source, to = np.arange(400, dtype=np.uint8), np.zeros(400, np.uint8)

    def write(_: Emitter, given: list[Pointer]) -> None:
        set_tile_shapes(given[0])
        load_tile(3, given[1], 100)
        store_tile(3, given[2], 50)

    run(write, tile_shapes([(0, 0)] * 3 + [(3, 24)]), source, to).check()
    wanted = np.zeros_like(to)
    for row in range(3):
        wanted[50 * row : 50 * row + 24] = source[100 * row : 100 * row + 24]
    np.testing.assert_array_equal(to, wanted)


@pytest.mark.parametrize(
    "shapes",
    [
        [(5, 28), (4, 12), (3, 28)],
        [(5, 28), (5, 16), (3, 28)],
        [(5, 24), (5, 12), (3, 28)],
        [(5, 28), (5, 12), (0, 0)],
    ],
)
def test_products_of_tiles_that_do_not_fit_are_refused(shapes: Shapes) -> None:
    room = [np.zeros(1024, np.uint8) for _ in range(3)]
    with pytest.raises(AssertionError, match="tiles of a wrong shape, or none: kernel"):
        multiply(u8, *room, shapes).check()


@pytest.mark.parametrize("place", [(0, 2), (1, 1), (16, 65), (48, 17), (48, 0), (60, 1)])
def test_shapes_that_no_tile_has_are_refused(place: tuple[int, int]) -> None:
    shapes = tile_shapes([(16, 64)])
    shapes[place[0]] = place[1]
    tiles = run(lambda _, given: set_tile_shapes(given[0]), shapes)
    assert tiles.count("refused") == 1


def test_tiles_without_a_shape_are_refused() -> None:
    room = np.zeros(1024, np.uint8)
    assert run(lambda _, given: load_tile(0, given[1], 64), room, room).count("refused") == 1


def test_another_function_begins_without_tiles() -> None:
    module = Module(HOST)
    with module.function("first") as e:
        set_tile_shapes(e.pointer("shapes", u8))
    with module.function("second") as e:
        store_tile(0, e.pointer("place", i32), 64)
    tiles = EmulatedTiles()
    library = load_host(tiles.compile(module, HOST), module.exports, HOST)
    for name, data in (("first", tile_shapes([(1, 4)])), ("second", np.zeros(64, np.uint8))):
        library.function(name, ctypes.c_void_p)(data.ctypes.data)
    assert tiles.count("refused") == 1
