"""Loops, branches, functions."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from afterglow.backends.cpu import Module, Target, compile_module, load_host
from afterglow.backends.cpu.llvm.emitter import (
    VOID,
    Emitter,
    Value,
    convert,
    fma,
    select,
    spin_pause,
)
from afterglow.backends.cpu.llvm.types import POINTER
from afterglow.types.dtype import f32, i32, i64
from tests.backends.cpu.running import HOST, build


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(0, 5, 1), (3, 4, 1), (2, 11, 4), (5, 5, 1), (7, 2, 3)]
)
@pytest.mark.parametrize("known", [True, False])
def test_a_loop_counts_as_range_does(start: int, stop: int, step: int, known: bool) -> None:
    def write(e: Emitter) -> None:
        y, first, last = e.pointer("y", i64), e.count("first"), e.count("last")
        bounds = (start, stop) if known else (first, last)
        with e.loop(bounds[1], start=bounds[0], step=step) as i:
            y.store(y.load(i) + 1, i)

    y = np.zeros(16, np.int64)
    build(write)(y, start, stop)
    assert np.flatnonzero(y).tolist() == list(range(start, stop, step))
    assert y.max(initial=0) <= 1


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 8, 9, 21])
@pytest.mark.parametrize("unroll", [1, 4])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("known", [True, False])
def test_a_fold_carries_values(count: int, unroll: int, step: int, known: bool) -> None:
    def write(e: Emitter) -> None:
        x, y, n = e.pointer("x", f32), e.pointer("y", f32), e.count("n")

        def body(k: Value, state: list[Value]) -> list[Value]:
            total, steps = state
            return [fma(total, 2.0, x.load(k)), steps + 1.0]

        start = [e.constant(f32, 0.0), e.constant(f32, 0.0)]
        total, steps = e.fold(count if known else n, start, body, step=step, unroll=unroll)
        y.store(total)
        y.store(steps, 1)

    x, y = np.arange(1, 40, dtype=np.float32), np.zeros(2, np.float32)
    build(write)(x, y, count)
    wanted = 0.0
    for k in range(0, count, step):
        wanted = wanted * 2 + float(x[k])
    assert y[0] == np.float32(wanted)
    assert y[1] == len(range(0, count, step))


def test_loops_nest() -> None:
    def write(e: Emitter) -> None:
        y, rows, columns = e.pointer("y", i64), e.count("rows"), e.count("columns")
        with e.loop(rows, name="row") as row, e.loop(columns, name="column") as column:
            y.store(row * 10 + column, row * columns + column)

    y = np.zeros((3, 4), np.int64)
    build(write)(y, 3, 4)
    np.testing.assert_array_equal(y, np.arange(3)[:, None] * 10 + np.arange(4))


def test_a_loop_inside_a_fold() -> None:
    def write(e: Emitter) -> None:
        y, n = e.pointer("y", i64), e.count("n")

        def outer(i: Value, state: list[Value]) -> list[Value]:
            return e.fold(i, state, lambda j, inner: [inner[0] + j])

        y.store(e.fold(n, [e.index(0)], outer)[0])

    y = np.zeros(1, np.int64)
    build(write)(y, 6)
    assert y[0] == sum(j for i in range(6) for j in range(i))


@pytest.mark.parametrize("n", [-3, 0, 4])
def test_a_branch_returns_the_results_of_its_way(n: int) -> None:
    def write(e: Emitter) -> None:
        y, count = e.pointer("y", i64), e.count("n")
        high, low = e.branch(
            count > 0,
            lambda: [count * 2, e.index(1)],
            lambda: [e.index(7), count],
            likely=True,
        )
        y.store(high)
        y.store(low, 1)

    y = np.zeros(2, np.int64)
    build(write)(y, n)
    assert y.tolist() == ([n * 2, 1] if n > 0 else [7, n])


@pytest.mark.parametrize("n", [0, 1])
def test_a_block_runs_only_when_it_should(n: int) -> None:
    def write(e: Emitter) -> None:
        y, count = e.pointer("y", i64), e.count("n")
        with e.when(count > 0, likely=False):
            y.store(e.index(5))

    y = np.zeros(1, np.int64)
    build(write)(y, n)
    assert y[0] == 5 * n


def test_iteration_goes_on_while_a_condition_holds() -> None:
    def write(e: Emitter) -> None:
        y, n = e.pointer("y", i64), e.count("n")

        def step(state: list[Value]) -> list[Value]:
            spin_pause(e)
            number, steps = state
            odd = (number & 1) > 0
            return [select(odd, number * 3 + 1, number >> 1), steps + 1]

        _, steps = e.iterate([n, e.index(0)], step, while_=lambda state: state[0] > 1)
        y.store(steps)

    y = np.zeros(1, np.int64)
    build(write)(y, 27)
    assert y[0] == 111


def test_what_is_carried_keeps_its_type() -> None:
    module = Module(Target.of("x86-64-v3"))
    with module.function("f") as e, pytest.raises(TypeError, match="a carried float becomes i32"):
        e.fold(8, [e.constant(f32, 0)], lambda i, state: [e.constant(i32, 0)])


def test_functions_call_each_other() -> None:
    module = Module(HOST)

    def square(e: Emitter) -> None:
        x = e.argument("x", f32, 8)
        e.return_(x * x)

    with module.function("cube") as e:
        x = e.pointer("x", f32)
        once = x.load(0, 8)
        twice = e.call(module.helper("square", square), once, result=f32)
        again = e.call(module.helper("square", square), once, result=f32)
        x.store(twice * once)
        x.store(again, 8)
    assert module.text.count("define internal") == 1
    assert module.exports == ["cube"]
    library = load_host(compile_module(module, HOST), module.exports, HOST)
    x = np.arange(16, dtype=np.float32)
    library.function("cube", ctypes.c_void_p)(x.ctypes.data)
    np.testing.assert_array_equal(x[:8], np.arange(8.0) ** 3)
    np.testing.assert_array_equal(x[8:], np.arange(8.0) ** 2)


def test_functions_from_outside_and_by_address() -> None:
    module = Module(HOST)
    seen: list[int] = []
    told = ctypes.CFUNCTYPE(None, ctypes.c_int64)(seen.append)
    tell = module.declare("tell", VOID, ["i64"])
    show = module.declare("snprintf", "i32", [POINTER, "i64", POINTER], variadic=True)
    with module.function("talk") as e:
        text, table = e.pointer("text", i32), e.pointer("table", i64)
        e.run(tell, e.index(11))
        e.run_at(e.load_pointer(table, 1, i64), e.index(22))
        with e.when(e.is_null(e.load_pointer(table, 0, i64))):
            e.store_pointer(table, 0, text)
        form = module.table(e, "form", np.frombuffer(b"%d\0", np.uint8))
        length = e.call(show, text, e.index(9), form, e.constant(i32, 12345), result=i32)
        e.run(tell, convert(length, i64))
    address = ctypes.cast(told, ctypes.c_void_p).value or 0
    library = load_host(
        compile_module(module, HOST), module.exports, HOST, imports={"tell": address}
    )
    text, table = np.zeros(4, np.int32), np.array([0, address], np.int64)
    library.function("talk", ctypes.c_void_p, ctypes.c_void_p)(text.ctypes.data, table.ctypes.data)
    assert seen == [11, 22, 5]
    assert text.tobytes().startswith(b"12345\0")
    assert table[0] == text.ctypes.data


def test_a_call_with_the_wrong_arguments_is_refused() -> None:
    module = Module(Target.of("x86-64-v3"))
    tell = module.declare("tell", VOID, ["i64"])
    with module.function("f") as e:
        with pytest.raises(TypeError, match=r"@tell takes \(i64\), got \(i32\)"):
            e.run(tell, e.constant(i32, 0))
        with pytest.raises(TypeError, match=r"@tell returns void, not f32"):
            e.call(tell, e.index(0), result=f32)


def test_names_of_functions_are_unique() -> None:
    module = Module(Target.of("x86-64-v3"))
    for _ in range(2):
        with module.function("matmul_f32_6x16"):
            pass
    assert module.exports == ["matmul_f32_6x16", "matmul_f32_6x16_1"]
