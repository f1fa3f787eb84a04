"""Tiles are chosen by the product's extents and the device's vectors: no device is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afterglow.backends.opencl.kernels.product import Extents, Work
from afterglow.backends.opencl.kernels.tile import Tile, panels, pieces
from afterglow.types.dtype import f32, f64
from tests.backends.opencl.test_driver import LIMITS

WIDE = replace(LIMITS, lanes=16, units=2)


@pytest.mark.parametrize(
    ("rows", "columns", "tile"),
    [
        (1024, 1024, Tile(12, 2, 16)),
        (3136, 144, Tile(8, 3, 16)),
        (49, 960, Tile(7, 3, 16)),
        (100, 6, Tile(20, 1, 8)),
        (1, 4096, Tile(1, 8, 16)),
    ],
)
def test_a_tile_fills_the_registers_and_fits_the_columns(rows, columns, tile):
    assert Tile.of(rows, columns, WIDE, f32) == tile


def test_vectors_of_wider_numbers_have_fewer_lanes():
    assert Tile.of(64, 64, WIDE, f64).lanes == 8


def test_work_is_divided_into_enough_items_for_all_units():
    extents = Extents(rows=1024, columns=64, terms=8)
    tile = Tile(12, 2, 16)
    assert Work.by_panels(extents, tile, WIDE).items == (9, 2, 1)
    assert Work.by_rows(extents, tile, WIDE).items == (86, 1, 1)


def test_elements_that_fill_no_vector_are_taken_in_smaller_ones():
    assert list(pieces(45, 16)) == [(0, 16), (16, 16), (32, 8), (40, 4), (44, 1)]


def test_a_matrix_without_terms_has_panels_all_the_same():
    assert panels(8)(np.zeros((1, 0, 10))).shape == (1, 2, 0, 8)
