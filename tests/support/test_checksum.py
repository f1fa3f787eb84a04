"""The checksum of large data: equal to CRC-32 where it is small, and it finds out every change."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from afterglow.support.checksum import checksum

BLOCK = 1 << 20
RANDOM = np.random.default_rng(7)
DATA = RANDOM.integers(0, 256, 3 * BLOCK + 77, np.uint8)


def changed(*places: tuple[int, int]) -> bytes:
    """The data with bits flipped, each by its byte and its mask."""
    copy = DATA.copy()
    for place, mask in places:
        copy[place] ^= mask
    return copy.tobytes()


@pytest.mark.parametrize("size", [0, 1, 4096, BLOCK - 1])
def test_of_small_data_it_is_the_crc(size: int) -> None:
    assert checksum(DATA[:size].tobytes()) == zlib.crc32(DATA[:size].tobytes())


def test_it_is_defined_by_the_sums_of_rows_and_columns() -> None:
    words = DATA[:BLOCK].view("<u8").reshape(256, 512)
    sums = b"".join(
        (sum(int(word) for word in line) % 2**64).to_bytes(8, "little")
        for line in (*words.T, *words)
    )
    assert checksum(DATA[: BLOCK + 5].tobytes()) == zlib.crc32(
        sums + DATA[BLOCK : BLOCK + 5].tobytes()
    )


def test_data_may_begin_anywhere() -> None:
    room = np.empty(len(DATA) + 3, np.uint8)
    room[3:] = DATA
    assert checksum(memoryview(room)[3:]) == checksum(DATA.tobytes())


def test_every_flipped_bit_is_found() -> None:
    whole = checksum(DATA.tobytes())
    for place in RANDOM.integers(0, len(DATA), 300):
        assert checksum(changed((place, 1 << int(RANDOM.integers(8))))) != whole


def test_changes_that_cancel_out_in_a_sum_are_found() -> None:
    whole = checksum(DATA.tobytes())
    sign = 0x80
    row = 512 * 8
    for other in (8, row, 8 + row, BLOCK):
        assert checksum(changed((7, sign), (7 + other, sign))) != whole


@pytest.mark.parametrize("size", [8, 4096, 64 << 10, BLOCK])
def test_parts_that_change_places_are_found(size: int) -> None:
    copy = DATA.copy()
    copy[:size], copy[size : 2 * size] = DATA[size : 2 * size], DATA[:size]
    assert checksum(copy.tobytes()) != checksum(DATA.tobytes())
