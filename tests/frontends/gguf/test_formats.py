"""Blocks of all formats, bit by bit as the package `gguf` 0.19 reads them."""

from __future__ import annotations

from hashlib import sha256, shake_128

import numpy as np
import pytest

from afterglow.frontends.gguf.formats import FORMATS, format_numbered
from afterglow.frontends.language.weights import Weight
from afterglow.support.errors import ModelError, UnsupportedError

BLOCKS = 40
DIGESTS = {
    "Q4_0": "8b15f3b32313a945",
    "Q4_1": "0b816fe3091714f6",
    "Q5_0": "48fa2b95aa615ed2",
    "Q5_1": "774ea289279c974a",
    "Q8_0": "b6766b4b92ca8365",
    "Q2_K": "d078e3ad5348bbd0",
    "Q3_K": "3d5db1225768c833",
    "Q4_K": "9079fa9698ca08b2",
    "Q5_K": "7b5f3b5de764c002",
    "Q6_K": "a5f56d4298f59273",
    "IQ2_XXS": "6bcf61f8b73e5a98",
    "IQ2_XS": "2f4e9075b238475f",
    "IQ3_XXS": "1430aa2d715c40b5",
    "IQ1_S": "4fa5ae97c4e176e4",
    "IQ4_NL": "3f8a7606bbdd0ceb",
    "IQ3_S": "b975586a849681c8",
    "IQ2_S": "63ada02a3ff8fa7b",
    "IQ4_XS": "5318483fa4f6a2d9",
    "IQ1_M": "f8d7bad7e37871fb",
    "BF16": "6efd1d7591fefe92",
    "MXFP4": "2c4aa60b44057340",
}
"""Of the floats that the package makes of pseudo-random blocks."""
BY_NAME = {format.name: format for format in FORMATS.values()}


def random_weight(name: str) -> Weight:
    format = BY_NAME[name]
    raw = shake_128(name.encode()).digest(BLOCKS * format.nbytes)
    return Weight("w", (BLOCKS, format.block), format, memoryview(raw))


@pytest.mark.parametrize("name", DIGESTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_blocks_hold_the_floats_that_the_format_defines(name: str) -> None:
    floats = np.nan_to_num(random_weight(name).floats().astype("<f4")) + np.float32(0)
    assert sha256(floats.tobytes()).hexdigest()[:16] == DIGESTS[name]


def test_every_format_but_plain_floats_is_compared() -> None:
    assert {*BY_NAME} - {*DIGESTS} == {"F32", "F16"}


@pytest.mark.parametrize("name", DIGESTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_and_scales_have_the_declared_types_and_fit_their_bits(name: str) -> None:
    weight = random_weight(name)
    format, numbers = weight.format, weight.numbers()
    assert numbers.dtype == format.dtype.numpy
    if format.is_float:
        return
    assert weight.scales().dtype == format.scale_type.numpy
    assert weight.scales().shape == weight.groups
    bits, wide = format.bits or format.dtype.bits, numbers.astype(np.int32)
    low, high = (-(1 << bits - 1), 1 << bits - 1) if format.dtype.is_signed else (0, 1 << bits)
    assert low <= wide.min() <= wide.max() < high


def test_rows_of_a_weight_are_a_weight() -> None:
    weight = random_weight("Q8_0")
    rows = weight.rows("part", 3, 7)
    assert rows.shape == (4, 32)
    np.testing.assert_array_equal(rows.numbers(), weight.numbers()[3:7])


def test_formats_that_are_not_read_are_named() -> None:
    with pytest.raises(UnsupportedError, match="tensor 'x' has the format TQ1_0"):
        format_numbered(34, "tensor 'x'")
    with pytest.raises(ModelError, match="has the format 99, which GGUF does not have"):
        format_numbered(99, "tensor 'x'")
