"""The multiply-accumulate core: sums along a depth and over taps, against NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from afterglow.backends.cpu import Emitter, Module, Target, compile_module, load_host
from afterglow.backends.cpu.llvm.emitter import Value
from afterglow.backends.cpu.micro.accumulate import (
    Accumulation,
    Factors,
    accumulate,
    broadcast_step,
    even_unroll,
    join_chains,
    vector_step,
)
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.backends.cpu.micro.tile import RegisterTile
from afterglow.types import Array
from afterglow.types.dtype import f32

LANES = 4
Sums = Callable[[Emitter, Factors], list[Value]]


def computed(sums: Sums, rows: Array, panel: Array, count: int) -> Array:
    """What a function writes to the memory behind its sums, given rows and a panel."""
    module, target = Module(Target.host()), Target.host()
    with module.function("sums") as e:
        x, w, y = (e.pointer(name, f32) for name in "xwy")
        starts = [x + row * rows.shape[1] for row in range(rows.shape[0])]
        for number, value in enumerate(sums(e, Factors(starts, w))):
            y.store(value, number * value.lanes)
    library = load_host(compile_module(module, target), module.exports, target)
    made = np.zeros(count, np.float32)
    given = [np.ascontiguousarray(a, np.float32) for a in (rows, panel)]
    call = library.function("sums", *[ctypes.c_void_p] * 3)
    call(*(array.ctypes.data for array in (*given, made)))
    return made


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)


@pytest.mark.parametrize("depth", [0, 1, 3, 4, 9, 1001])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_tile_is_rows_times_a_panel(rows: int, depth: int) -> None:
    x, w = numbers(rows, max(depth, 1)), numbers(max(depth, 1), 2 * LANES)

    def sums(e: Emitter, at: Factors) -> list[Value]:
        found = accumulate(e, RegisterTile(rows, 2, LANES), at.rows, at.panel, depth, f32)
        return [vector for row in found for vector in row]

    wanted = x[:, :depth] @ w[:depth]
    np.testing.assert_array_equal(computed(sums, x, w, wanted.size), wanted.reshape(-1))


@pytest.mark.parametrize("extents", [(3, 5), (2, 3, 7), (3, 300), (40, 3, 12), (1, 1000)])
def test_taps_are_walked_axis_by_axis(extents: tuple[int, ...]) -> None:
    x = numbers(2, int(np.prod(extents)) * 2)
    places = np.arange(x.shape[1] // 2).reshape(extents)
    strides = tuple(int(s) // places.itemsize for s in places.strides)
    taps = Axes(extents, strides)
    w = numbers(places.size, LANES)

    def sums(e: Emitter, at: Factors) -> list[Value]:
        step = broadcast_step(f32, lambda line: [line.load(0, LANES)])
        core = Accumulation(step, even_unroll(extents[-1], 4, 2))
        factors = Factors(at.rows, at.panel, line=LANES)
        return core.over(e, taps, factors, [e.constant(f32, 0, LANES)] * 2)

    wanted = x[:, places.reshape(-1)] @ w
    np.testing.assert_array_equal(computed(sums, x, w, wanted.size), wanted.reshape(-1))


@pytest.mark.parametrize(("chains", "vectors"), [(1, 5), (2, 7), (3, 9), (4, 1100)])
def test_vectors_along_the_depth_are_summed_lane_by_lane(chains: int, vectors: int) -> None:
    depth = vectors * LANES
    x, w = numbers(2, depth), numbers(3, depth)

    def sums(e: Emitter, at: Factors) -> list[Value]:
        step = vector_step(f32, LANES, [0, depth, 2 * depth])
        zeros = [e.constant(f32, 0, LANES)] * (6 * chains)
        core = Accumulation(step, chains, LANES, chains)
        return join_chains(core.along(e, at, depth, zeros, chains * LANES), chains)

    found = computed(sums, x, w, 6 * LANES).reshape(2, 3, LANES).sum(-1)
    np.testing.assert_array_equal(found, x @ w.T)


def test_a_turn_divides_the_depth_if_it_can() -> None:
    assert even_unroll(12, 8, 3) == 6
    assert even_unroll(10, 4, 2) == 2
    assert even_unroll(7, 4, 2) == 4
    assert even_unroll(1, 8, 3) == 1


def test_settled_rows_that_begin_alike_are_frozen_once() -> None:
    module = Module(Target.host())
    with module.function("rows") as e:
        x, other, panel = (e.pointer(name, f32) for name in ("x", "other", "panel"))
        rows = [x + 3, x + 10, other]
        settled = Factors(rows, panel).settled()
        for row in settled.rows:
            settled.panel.store(row.load())
    assert [row.offset for row in settled.rows] == [3, 10, 0]
    assert len({row.text for row in settled.rows}) == 2
    assert module.text.count("freeze ptr") == 3
