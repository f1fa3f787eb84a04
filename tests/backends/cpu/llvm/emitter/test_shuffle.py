"""Lanes moved about, and lanes made one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from afterglow.backends.cpu import Module, Target, assembly
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Value,
    all_lanes,
    any_lane,
    concat,
    constant_vector,
    convert,
    deinterleave,
    insert,
    interleave,
    part,
    reduce_max,
    reduce_min,
    reduce_product,
    reduce_sum,
    reverse,
    shuffle,
    transpose,
    vector,
)
from afterglow.types.dtype import DType, f32, f64, i32
from tests.backends.cpu.running import RUNNABLE, build

X = np.arange(64, dtype=np.float32)


def moved(function: Callable[..., Value | Sequence[Value]], *lanes: int) -> list[float]:
    """What a function makes of vectors that count on from 0."""
    results: list[int] = []

    def write(e: Emitter) -> None:
        x, y = e.pointer("x", f32), e.pointer("y", f32)
        places = np.cumsum([0, *lanes])
        found = function(*(x.load(int(p), n) for p, n in zip(places, lanes, strict=False)))
        place = 0
        for value in [found] if isinstance(found, Value) else found:
            y.store(value, place)
            place += value.lanes
        results.append(place)

    y = np.zeros(128, np.float32)
    build(write)(X, y)
    return y[: results[0]].tolist()


def test_parts_and_wholes() -> None:
    assert moved(lambda a, b: shuffle(a, b, [0, 5, 2, 7]), 4, 4) == [0, 5, 2, 7]
    assert moved(lambda a: part(a, 2, 3), 8) == [2, 3, 4]
    assert moved(lambda a: part(a, 3, 1), 8) == [3]
    assert moved(concat, 4, 4, 4) == list(range(12))
    assert moved(concat, 1, 2, 3, 1) == list(range(7))
    assert moved(concat, 1, 1) == [0, 1]
    assert moved(reverse, 5) == [4, 3, 2, 1, 0]
    assert moved(interleave, 4, 4) == [0, 4, 1, 5, 2, 6, 3, 7]
    assert moved(interleave, 1, 1) == [0, 1]
    assert moved(lambda a: deinterleave(a, 3), 12) == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]


def test_single_lanes() -> None:
    assert moved(lambda a: a.lane(3), 8) == [3]
    assert moved(lambda a: insert(a, 2, 9.0), 4) == [0, 1, 9, 3]
    assert moved(lambda a: insert(a, 0, 9.0), 1) == [9]
    assert moved(lambda a: vector([a.lane(3), a.lane(1)]), 4) == [3, 1]
    assert moved(lambda a: a + constant_vector(a.code, f32, [5, 6, 7]), 3) == [5, 7, 9]
    assert moved(lambda a: a.lane(convert(a.lane(2), i32)), 4) == [2]


@pytest.mark.parametrize("side", [1, 2, 4, 8, 16])
def test_small_tiles_are_transposed(side: int) -> None:
    def write(e: Emitter) -> None:
        x, y = e.pointer("x", f32), e.pointer("y", f32)
        rows = [x.load(row * side, side) for row in range(side)]
        for row, value in enumerate(transpose(rows)):
            y.store(value, row * side)

    x = np.arange(side * side, dtype=np.float32).reshape(side, side)
    y = np.zeros_like(x)
    build(write)(x, y)
    np.testing.assert_array_equal(y, x.T)


def test_only_squares_are_transposed() -> None:
    module = Module(Target.of("x86-64-v3"))
    with module.function("f") as e:
        rows = [e.argument(f"x{i}", f32, 4) for i in range(3)]
        with pytest.raises(TypeError, match="3 rows of 4 lanes are no square"):
            transpose(rows)


def test_a_transposition_needs_few_shuffles() -> None:
    module = Module(Target.of("x86-64-v3"))
    with module.function("f") as e:
        x, y = e.pointer("x", f32), e.pointer("y", f32)
        rows = [x.load(row * 8, 8) for row in range(8)]
        for row, value in enumerate(transpose(rows)):
            y.store(value, row * 8)
    lines = assembly(module, module.target).splitlines()
    moves = [
        line for line in lines if line.startswith(("\tvunpck", "\tvshuf", "\tvperm", "\tvblend"))
    ]
    assert len(moves) <= 32


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 7, 8, 16, 33])
@pytest.mark.parametrize("dtype", [f32, f64, i32], ids=str)
def test_reductions(lanes: int, dtype: DType, target: str) -> None:
    def write(e: Emitter) -> None:
        x, y = e.pointer("x", dtype), e.pointer("y", dtype)
        value = x.load(0, lanes)
        y.store(reduce_sum(value))
        y.store(reduce_max(value), 1)
        y.store(reduce_min(value), 2)
        y.store(reduce_product(value), 3)
        y.store(reduce_max(value, nan=False), 4)

    x = np.random.default_rng(0).permutation(np.arange(1, 34)).astype(dtype.numpy)
    y = np.zeros(5, dtype.numpy)
    build(write, Target.of(target))(x, y)
    used = x[:lanes]
    assert y[0] == used.sum()
    assert y[1] == y[4] == used.max()
    assert y[2] == used.min()
    np.testing.assert_allclose(y[3], used.prod(dtype=dtype.numpy), 1e-5)


def test_the_order_of_a_sum_is_fixed() -> None:
    x = np.random.default_rng(1).normal(size=16).astype(np.float32)
    x *= np.float32(10) ** np.arange(-8, 8, dtype=np.float32)

    def halves(v: np.ndarray) -> np.float32:
        while v.size > 1:
            v = v[: v.size // 2] + v[v.size // 2 :]
        return v[0]

    def write(e: Emitter) -> None:
        e.pointer("y", f32).store(reduce_sum(e.pointer("x", f32).load(0, 16)))

    for target in RUNNABLE:
        y = np.zeros(1, np.float32)
        build(write, Target.of(target))(y, x)
        assert y[0] == halves(x)


@pytest.mark.parametrize("nans", [0, 3])
def test_nan_survives_reductions(nans: int) -> None:
    def write(e: Emitter) -> None:
        x, y = e.pointer("x", f32).load(0, 8), e.pointer("y", f32)
        y.store(reduce_max(x))
        y.store(reduce_min(x), 1)

    x = np.arange(8, dtype=np.float32)
    x[nans : nans + 1] = np.nan
    y = np.zeros(2, np.float32)
    build(write)(x, y)
    assert np.isnan(y).all()


@pytest.mark.parametrize("lanes", [1, 3, 8, 16])
def test_conditions_of_all_and_of_any_lane(lanes: int) -> None:
    def write(e: Emitter) -> None:
        x, y = e.pointer("x", f32).load(0, lanes), e.pointer("y", i32)
        y.store(convert(any_lane(x > 0.0), i32))
        y.store(convert(all_lanes(x > 0.0), i32), 1)

    for count in (0, 1, lanes):
        x = np.zeros(lanes, np.float32)
        x[:count] = 1
        y = np.zeros(2, np.int32)
        build(write)(x, y)
        assert y.tolist() == [int(count > 0), int(count == lanes)]
