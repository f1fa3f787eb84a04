"""GGUF files that are not what they should be: every count, type and offset is checked."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from afterglow.frontends.gguf.reader import read_file
from afterglow.support.errors import AfterglowError
from tests.frontends.gguf.files import Blocks, gguf_bytes

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)
NAMED = {"general.architecture": "llama"}


def refusal(data: bytes) -> str:
    with pytest.raises(AfterglowError) as caught:
        read_file(memoryview(data))
    return caught.value.what


def test_a_file_gives_metadata_and_tensors_without_copying_them() -> None:
    data = gguf_bytes(
        {**NAMED, "a": 7, "b": [1.5, 2.0], "c": True, "d": ["x", b"\xff"]}, {"w": WEIGHT}
    )
    file = read_file(memoryview(data))
    assert file.metadata.text("general.architecture") == "llama"
    assert file.metadata.integer("a") == 7
    assert file.metadata.numbers("b") == [1.5, 2.0]
    assert file.metadata.flag("c", False) is True
    assert file.metadata.texts("d") == ["x", "\udcff"]
    np.testing.assert_array_equal(file.tensors["w"].numbers(), WEIGHT)
    assert file.tensors["w"].raw.obj is data


def test_every_truncation_is_refused() -> None:
    data = gguf_bytes({**NAMED, "tokens": ["a", "bc"]}, {"w": WEIGHT})
    end = len(data) - 32 + WEIGHT.nbytes
    for length in range(4, end):
        assert "the file ends within" in (what := refusal(data[:length])) or "bytes follow" in what


def test_what_is_wrong_is_said() -> None:
    good = gguf_bytes(NAMED, {"w": WEIGHT})
    assert refusal(good[:4] + struct.pack(">I", 3) + good[8:]).startswith(
        "the file has the byte order of big-endian machines"
    )
    assert refusal(good[:4] + struct.pack("<I", 9) + good[8:]).startswith(
        "the file is of version 9 of GGUF"
    )
    huge = good[:8] + struct.pack("<Q", 1 << 60) + good[16:]
    assert refusal(huge).startswith("the number of tensors is 1,152,921,504,606,846,976")
    twice = gguf_bytes(NAMED, {"w": WEIGHT, "v": WEIGHT}).replace(
        struct.pack("<Q", 1) + b"v", struct.pack("<Q", 1) + b"w"
    )
    assert refusal(twice) == "tensor 'w' is there twice"


def test_shapes_must_fit_the_blocks_of_formats() -> None:
    assert refusal(gguf_bytes(NAMED, {"w": Blocks(8, (2, 40), bytes(68))})) == (
        "tensor 'w' is [2, 40], and Q8_0 has blocks of 32"
    )
    assert refusal(gguf_bytes(NAMED, {"w": Blocks(0, (0, 4), b"")})).startswith("tensor 'w' is [0")


def test_a_tensor_that_no_file_could_hold_is_refused_without_allocating_it() -> None:
    what = refusal(gguf_bytes(NAMED, {"w": Blocks(0, (1 << 31, 1 << 31), b"")}))
    assert what.startswith("the file ends within tensor 'w': it takes 18,446,744,073,709,551,616")


def test_an_alignment_that_is_no_power_of_two_is_refused() -> None:
    what = refusal(gguf_bytes({"general.alignment": 24}, {"w": WEIGHT}))
    assert what == "the alignment of tensors is 24, which is no power of 2"
