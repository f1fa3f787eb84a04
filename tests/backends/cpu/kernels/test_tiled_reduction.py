"""Reductions of broadcast operands, a tile of results at a time."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.types import Array


def compiled(text: str, *arrays: Array, threads: int = 1) -> ag.CompiledModel:
    op = ag.comprehension(text)
    shapes = dict(zip(op.operands, (array.shape for array in arrays), strict=True))
    dtype = {"float32": "f32", "int32": "i32", "float16": "f16"}[arrays[0].dtype.name]
    return ag.compile(op.module(shapes, dtype), threads=threads)


def numbers(*shape: int, dtype: str = "float32") -> Array:
    made = np.random.default_rng(shape).uniform(-2, 2, shape) * (5 if dtype == "int32" else 1)
    return made.astype(dtype)


@pytest.mark.parametrize(
    ("text", "shapes", "dtype"),
    [
        ("o[i,j] = sum(k) (a[i,k] - b[j,k])**2", ((35, 20), (67, 20)), "float32"),
        ("o[i,j] = max(k) (a[i,k] + b[k,j])", ((37, 9), (9, 40)), "float32"),
        ("o[i,j] = mean(k) abs(a[i,k] - b[j,k])", ((17, 300), (130, 300)), "float32"),
        (
            "o[n,i,j] = min(k,l) (a[n,i,k,l] * b[n,j,k,l])",
            ((3, 18, 4, 5), (3, 32, 4, 5)),
            "float32",
        ),
        ("o[i,j] = sum(k) (a[i,k] + b[k,j])", ((30, 7), (7, 64)), "int32"),
        ("o[i,j] = sum(k) abs(a[i,k] - b[j,k])", ((32, 16), (48, 16)), "float16"),
        ("o[i,j] = relu(c[j] - i - sum(k) (a[i,k] - b[j,k])**2)", ((40, 16), (50, 16)), "float32"),
    ],
)
def test_tiles_agree_with_the_definition(
    text: str, shapes: tuple[tuple[int, ...], ...], dtype: str
) -> None:
    op = ag.comprehension(text)
    given = dict(zip(("a", "b"), shapes, strict=True)) | {"c": (shapes[1][0],)}
    arrays = [numbers(*given[name], dtype=dtype) for name in op.operands]
    model = compiled(text, *arrays)
    assert "plan tiled" in model.ir()
    wide = [array.astype(np.float32) if dtype == "float16" else array for array in arrays]
    tolerance = 4e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(model(*arrays), op.evaluate(*wide), rtol=tolerance, atol=1e-4)


def test_threads_compute_the_same_to_the_bit() -> None:
    text, arrays = "o[i,j] = sum(k) (a[i,k] - b[j,k])**2", (numbers(67, 64), numbers(130, 64))
    one, two = (compiled(text, *arrays, threads=threads)(*arrays) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_what_is_used_once_is_not_transposed() -> None:
    model = compiled("o[i] = sum(k) (a[i,k] * b[i,k])", numbers(64, 32), numbers(64, 32))
    assert "plan tiled" not in model.ir()
    assert model.memory.arena_bytes == 0
