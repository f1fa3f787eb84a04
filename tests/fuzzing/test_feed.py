"""Inputs are made for models whose inputs are small tensors."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import pytest

from afterglow.runtime.signature import TensorInfo
from afterglow.types.dtype import DTYPES, f32, i64
from fuzzing.feed import feed_for, random_array


def test_a_dimension_with_a_name_has_one_extent() -> None:
    infos = [TensorInfo("x", f32, ("n", 3)), TensorInfo("y", i64, ("n",))]
    feed = feed_for(SimpleNamespace(inputs=infos), Random(0))
    assert feed["x"].shape == (len(feed["y"]), 3)


@pytest.mark.parametrize("shape", [(1 << 30,), (0, 1 << 62), None])
def test_large_inputs_are_not_made(shape) -> None:
    assert feed_for(SimpleNamespace(inputs=[TensorInfo("x", f32, shape)]), Random(0)) is None


@pytest.mark.parametrize("name", DTYPES)
def test_arrays_of_every_type_can_be_made(name: str) -> None:
    dtype = DTYPES[name]
    for seed in range(4):
        array = random_array(dtype, (2, 0, 3), Random(seed))
        assert (array.shape, array.dtype) == ((2, 0, 3), dtype.numpy)
