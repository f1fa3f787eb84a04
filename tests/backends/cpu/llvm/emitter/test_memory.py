"""Loads and stores of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Module, Target, assembly
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Value,
    convert,
    first_lanes,
    gather,
    lane_numbers,
    load_masked,
    load_strided,
    scatter,
    store_masked,
    store_strided,
)
from afterglow.types.dtype import DType, boolean, f16, f32, f64, i8, i16, i32, i64, u32
from tests.backends.cpu.running import RUNNABLE, build

each_target = pytest.mark.parametrize("target", RUNNABLE)
each_dtype = pytest.mark.parametrize("dtype", [i8, i16, f16, f32, f64, boolean], ids=str)


def some(dtype: DType, size: int = 64) -> np.ndarray:
    numbers = np.arange(1, size + 1)
    return (numbers % 3 == 0) if dtype is boolean else numbers.astype(dtype.numpy)


@each_dtype
@pytest.mark.parametrize("lanes", [1, 2, 3, 5, 8, 16, 17, 64])
def test_vectors_of_any_length_are_moved(dtype: DType, lanes: int) -> None:
    def write(e: Emitter) -> None:
        x, y = e.pointer("x", dtype), e.pointer("y", dtype)
        y.store(x.load(0, lanes))

    x, y = some(dtype, 80), np.zeros(80, dtype.numpy)
    build(write)(x, y)
    np.testing.assert_array_equal(y[:lanes], x[:lanes])
    assert not y[lanes:].any()


@each_target
@each_dtype
@pytest.mark.parametrize("count", [0, 1, 5, 8, 100])
def test_masked_lanes_are_not_touched(dtype: DType, count: int, target: str) -> None:
    def write(e: Emitter) -> None:
        x, y, n = e.pointer("x", dtype), e.pointer("y", dtype), e.count("n")
        mask = first_lanes(n, 8)
        store_masked(y, load_masked(x, mask, 1), mask, 2)

    x, y = some(dtype), np.zeros(64, dtype.numpy)
    build(write, Target.of(target))(x, y, count)
    kept = min(count, 8)
    np.testing.assert_array_equal(y[2 : 2 + kept], x[1 : 1 + kept])
    assert not y[:2].any()
    assert not y[2 + kept :].any()


def test_lanes_that_are_masked_out_take_another_number() -> None:
    def write(e: Emitter) -> None:
        x, y, n = e.pointer("x", f32), e.pointer("y", f32), e.count("n")
        y.store(load_masked(x, first_lanes(n, 8), otherwise=-1.0))

    x, y = some(f32), np.zeros(8, np.float32)
    build(write)(x, y, 3)
    np.testing.assert_array_equal(y, [1, 2, 3, -1, -1, -1, -1, -1])


@each_target
def test_the_first_lane_of_a_narrowed_vector_is_stored_alone(target: str) -> None:
    def write(e: Emitter) -> None:
        x, y = e.pointer("x", i32), e.pointer("y", i8)
        store_masked(y, convert(x.load(0, 16), i8), first_lanes(e.index(1), 16))

    x, y = np.arange(5, 21, dtype=np.int32), np.full(16, 9, np.int8)
    build(write, Target.of(target))(x, y)
    assert y.tolist() == [5] + [9] * 15


def test_a_single_lane_can_be_masked() -> None:
    def write(e: Emitter) -> None:
        x, y, n = e.pointer("x", f32), e.pointer("y", f32), e.count("n")
        mask = n > 0
        store_masked(y, load_masked(x, mask, otherwise=9.0) + 1.0, mask)
        y.store(load_masked(x, mask, otherwise=9.0), 1)

    for n, wanted in ((1, [2, 1]), (0, [0, 9])):
        y = np.zeros(2, np.float32)
        build(write)(some(f32), y, n)
        np.testing.assert_array_equal(y, wanted)


@each_target
@each_dtype
@pytest.mark.parametrize("lanes", [1, 4, 6, 16])
def test_gather_and_scatter(dtype: DType, lanes: int, target: str) -> None:
    def write(e: Emitter) -> None:
        x, y, places = e.pointer("x", dtype), e.pointer("y", dtype), e.pointer("places", i32)
        where = places.load(0, lanes)
        scatter(y, gather(x + 2, where), where)

    x, y = some(dtype, 99), np.zeros(99, dtype.numpy)
    places = np.random.default_rng(0).permutation(97)[:lanes].astype(np.int32)
    build(write, Target.of(target))(x, y, places)
    wanted = np.zeros(99, dtype.numpy)
    wanted[places] = x[places + 2]
    np.testing.assert_array_equal(y, wanted)


def test_unsigned_places_are_not_taken_for_negative_ones() -> None:
    def write(e: Emitter) -> None:
        x, y = e.pointer("x", i8), e.pointer("y", i8)
        place = e.constant(u32, 2**32 - 1)
        y.store(gather(x + (1 - 2**32), place.splat(4)))

    x, y = some(i8), np.zeros(4, np.int8)
    build(write)(x, y)
    np.testing.assert_array_equal(y, [1, 1, 1, 1])


def test_masked_gather_reads_only_where_it_may() -> None:
    def write(e: Emitter) -> None:
        x, y = e.pointer("x", f32), e.pointer("y", f32)
        where = lane_numbers(e, i64, 8, step=1 << 40)
        y.store(gather(x, where, where < 1, 7.0))

    y = np.zeros(8, np.float32)
    build(write)(some(f32), y)
    np.testing.assert_array_equal(y, [1, 7, 7, 7, 7, 7, 7, 7])


@pytest.mark.parametrize("stride", [0, 1, 2, 3, -1])
@pytest.mark.parametrize("known", [True, False])
def test_strided_loads(stride: int, known: bool) -> None:
    def write(e: Emitter) -> None:
        x, y, step = e.pointer("x", f32), e.pointer("y", f32), e.count("step")
        y.store(load_strided(x, 20, stride if known else step, 8))

    x, y = some(f32), np.zeros(8, np.float32)
    build(write)(x, y, stride)
    np.testing.assert_array_equal(y, [x[20 + lane * stride] for lane in range(8)])


@pytest.mark.parametrize("stride", [1, 3])
def test_strided_stores(stride: int) -> None:
    def write(e: Emitter) -> None:
        x, y = e.pointer("x", f32), e.pointer("y", f32)
        store_strided(y, x.load(0, 8), 2, stride)

    x, y = some(f32), np.zeros(64, np.float32)
    build(write)(x, y)
    np.testing.assert_array_equal(y[2 : 2 + 8 * stride : stride], x[:8])
    assert np.count_nonzero(y) == 8


def test_broadcasts_and_places_from_other_counts() -> None:
    def write(e: Emitter) -> None:
        x, y, places = e.pointer("x", f32), e.pointer("y", f32), e.pointer("places", i32)
        y.store(x.broadcast(places.load(1), 4))

    y = np.zeros(4, np.float32)
    build(write)(some(f32), y, np.array([5, 7], np.int32))
    np.testing.assert_array_equal(y, [8, 8, 8, 8])


def test_known_places_keep_what_is_known_of_alignment() -> None:
    module = Module(Target.of("x86-64-v3"))
    with module.function("f") as e:
        x = e.pointer("x", f32, align=64)
        assert (x + 8).known_align == 32
        assert (x + 16).known_align == 64
        assert (x + 3).known_align == 4
        assert (x + e.count("n")).known_align == 4
        assert (x + e.count("m")).aligned(32).known_align == 32
        assert x.cast(f64).known_align == 64


def test_scratch_and_copies() -> None:
    def write(e: Emitter) -> None:
        x, y, n = e.pointer("x", f32), e.pointer("y", f32), e.count("n")
        held = e.scratch(f32, 16)
        e.zero(held, 16)
        e.copy(held + 2, x, n)
        y.store(held.load(0, 16))

    y = np.ones(16, np.float32)
    build(write)(some(f32), y, 5)
    np.testing.assert_array_equal(y, [0, 0, 1, 2, 3, 4, 5, *[0] * 9])


def test_constants_lie_in_a_table_once() -> None:
    module = Module(Target.of("x86-64-v3"))
    numbers = np.arange(4, dtype=np.float32)
    for name in ("first", "second"):
        with module.function(name) as e:
            module.table(e, "numbers", numbers).load(0, 4)
    assert module.text.count("internal constant") == 1

    def write(e: Emitter) -> None:
        e.pointer("y", f32).store(e.module.table(e, "numbers", numbers).load(1, 3))

    y = np.zeros(3, np.float32)
    build(write)(y)
    np.testing.assert_array_equal(y, [1, 2, 3])


def test_hints_reach_the_machine() -> None:
    module = Module(Target.of("x86-64-v3"))
    with module.function("f") as e:
        x = e.pointer("x", f32, align=64)
        x.prefetch(64)
        x.prefetch(128, locality=2)
        x.store(x.load(0, 8), 16, streaming=True)
    text = assembly(module, module.target)
    assert "prefetcht0\t256(%rdi)" in text
    assert "prefetcht1\t512(%rdi)" in text
    assert "vmovntps" in text


def test_the_wrong_type_is_not_stored() -> None:
    module = Module(Target.of("x86-64-v3"))
    with module.function("f") as e:
        x = e.pointer("x", f32)
        with pytest.raises(TypeError, match="f64 is stored where f32 lies"):
            x.store(Value.of(e, f64, 1.0))


def test_storage_is_shared_and_lasts() -> None:
    def write(e: Emitter) -> None:
        for _ in range(2):
            counter = e.module.storage(e, "counter", i64, 4)
            counter.store(counter.load(1) + 1, 1)
        e.pointer("y", i64).store(counter.load(1))

    y = np.zeros(1, np.int64)
    kernel = build(write)
    kernel(y)
    kernel(y)
    assert y[0] == 4
