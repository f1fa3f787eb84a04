"""Constants as bytes beside the text of a module."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Constant
from afterglow.graph.payload import ALIGNMENT, pack_constants, unpack_constants
from afterglow.types.dtype import bf16, i4


def test_constants_come_back_as_they_were() -> None:
    arrays = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "none": np.empty((0, 3), np.int64),
        "one": np.array(7, np.uint8),
        "yes": np.array([True, False]),
        "half": np.array([0.5, 2], bf16.numpy),
        "small": np.array([-8, 7], i4.numpy),
        "words": np.array([["a", "\u00e9"], ["", "\0"]], object),
    }
    packed = pack_constants(Constant(name, array) for name, array in arrays.items())
    found = unpack_constants(packed)
    assert [*found] == [*arrays]
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_elements_are_views_at_aligned_offsets() -> None:
    packed = pack_constants([Constant("a", np.ones(3, np.float32)), Constant("b", np.ones(2))])
    start = len(packed) - 2 * 8
    assert start % ALIGNMENT == 0
    b = unpack_constants(packed)["b"]
    assert not b.flags.owndata
    assert not b.flags.writeable
