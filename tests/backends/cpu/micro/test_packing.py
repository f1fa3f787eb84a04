"""Packings: arrays written once, into memory that someone else has."""

import numpy as np
import pytest

from afterglow.backends.cpu.micro.packing import Packing, fill_panels


def test_an_array_is_copied_without_gaps() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    memory = np.full(40, 255, np.uint8)
    packing = Packing.of(array)
    assert packing.nbytes == 24
    packing.write_to(memory)
    assert memory[:24].view(np.float32).tolist() == [0, 3, 1, 4, 2, 5]
    assert memory[24:].tolist() == [255] * 16
    assert np.array_equal(packing.array(), array)


@pytest.mark.parametrize("columns", [1, 4, 7, 8])
def test_panels_are_filled_with_zeros(columns: int) -> None:
    matrix = np.random.default_rng(0).standard_normal((2, columns, 3, 5))
    count = -(-columns // 4)
    made = np.full((2, count, 3, 5, 4), np.nan)
    fill_panels(made, matrix, axis=1)
    whole = np.pad(matrix, ((0, 0), (0, count * 4 - columns), (0, 0), (0, 0)))
    assert np.array_equal(made, np.moveaxis(whole.reshape(2, count, 4, 3, 5), 2, -1))
