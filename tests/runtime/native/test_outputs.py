"""Memory of outputs is used again, and only when nobody can see it any more."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from afterglow.runtime.native.outputs import LARGE, MOST_CACHED, OutputArrays
from afterglow.types import DType, TensorType
from afterglow.types.dtype import f32, u8
from afterglow.types.extent import Dim, ranged


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_memory_comes_back_when_the_array_is_gone() -> None:
    outputs = OutputArrays([TensorType(u8, (LARGE,))])
    (array,) = outputs.make({})
    first = address(array)
    del array
    assert address(outputs.make({})[0]) == first


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[5:7],
        lambda a: a.reshape(-1, 2)[:, 1],
        lambda a: a.T.view(np.int32),
        memoryview,
        lambda a: np.asarray(memoryview(a))[3:],
        lambda a: [a[0, 1:]],
    ],
)
def test_what_a_caller_can_see_is_left_alone(view: object) -> None:
    outputs = OutputArrays([TensorType(f32, (1024, 1024))])
    (array,) = outputs.make({})
    first = address(array)
    seen = view(array)  # type: ignore[operator]
    del array
    gc.collect()
    assert all(address(outputs.make({})[0]) != first for _ in range(4))
    del seen
    gc.collect()
    assert first in [address(a) for a in [outputs.make({})[0] for _ in range(MOST_CACHED + 1)]]


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, ml_dtypes.bfloat16, np.complex64, object])
def test_types_and_shapes_are_as_asked_for(dtype: type) -> None:
    shapes = [(LARGE // 4, 4), (3, 0), ()]
    outputs = OutputArrays([TensorType(DType.of(np.dtype(dtype)), shape) for shape in shapes])
    for array, shape in zip(outputs.make({}), shapes, strict=True):
        assert array.shape == shape
        assert array.dtype == dtype
        assert array.flags.carray


def test_threads_never_get_the_same_memory() -> None:
    outputs = OutputArrays([TensorType(u8, (LARGE,))])

    def fill(value: int) -> bool:
        (array,) = outputs.make({})
        array.fill(value)
        return bool((array == value).all())

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(fill, range(100)))


def test_memory_does_not_pile_up() -> None:
    outputs = OutputArrays([TensorType(u8, (LARGE,))])
    arrays = [outputs.make({})[0] for _ in range(10)]
    kept = {address(array) for array in arrays}
    del arrays
    again = [address(outputs.make({})[0]) for _ in range(3)]
    assert set(again) <= kept


def test_a_ranged_output_is_as_long_as_the_run_says() -> None:
    outputs = OutputArrays([TensorType(f32, (ranged(Dim("s", 1, LARGE)), 4))])
    (array,) = outputs.make({"s": 3})
    first = address(array)
    assert array.shape == (3, 4)
    assert array.flags.carray
    del array
    (longer,) = outputs.make({"s": LARGE})
    assert longer.shape == (LARGE, 4)
    assert address(longer) == first


def test_shapes_follow_the_extents_from_run_to_run() -> None:
    s = ranged(Dim("s", 1, LARGE))
    outputs = OutputArrays([TensorType(f32, (s, 4)), TensorType(u8, (2,)), TensorType(u8, (s,))])
    short, long = {"s": 3}, {"s": 5}
    for extents in (short, short, long, short, {"s": 5}):
        n = extents["s"]
        assert [array.shape for array in outputs.make(extents)] == [(n, 4), (2,), (n,)]
