"""Memory that threads share."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

from afterglow.backends.cpu import Module, Target, compile_module, load_host
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Order,
    compare_exchange,
    convert,
    exchange,
    fence,
    fetch_add,
    load_atomic,
    spin_pause,
    store_atomic,
)
from afterglow.backends.cpu.target import NAMED
from afterglow.types.dtype import i32, i64
from tests.backends.cpu.running import HOST, build


def test_each_access() -> None:
    def write(e: Emitter) -> None:
        x, y = e.pointer("x", i32), e.pointer("y", i32)
        y.store(fetch_add(x, 5))
        y.store(exchange(x, 9, order=Order.SEQUENTIAL), 1)
        found, done = compare_exchange(x, 9, 11)
        y.store(found, 2)
        y.store(convert(done, i32), 3)
        found, done = compare_exchange(x, 9, 12)
        y.store(found, 4)
        y.store(convert(done, i32), 5)
        fence(e)
        y.store(load_atomic(x), 6)
        store_atomic(x, 40)

    x, y = np.array([2], np.int32), np.zeros(7, np.int32)
    build(write)(x, y)
    assert y.tolist() == [2, 7, 9, 1, 11, 0, 11]
    assert x[0] == 40


def test_no_count_is_lost_between_threads() -> None:
    module = Module(HOST)
    with module.function("count") as e:
        x, n = e.pointer("x", i64), e.count("n")
        with e.loop(n):
            fetch_add(x, 1, order=Order.RELAXED)
    library = load_host(compile_module(module, HOST), module.exports, HOST)
    count = library.function("count", ctypes.c_void_p, ctypes.c_int64)
    x = np.zeros(1, np.int64)
    threads = [threading.Thread(target=count, args=(x.ctypes.data, 200_000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x[0] == 800_000


@pytest.mark.parametrize("name", NAMED)
def test_every_target_has_them(name: str) -> None:
    module = Module(Target.of(name))
    with module.function("f") as e:
        x = e.pointer("x", i32)
        fetch_add(x, 1)
        compare_exchange(x, 1, 2)
        store_atomic(x, load_atomic(x, 1))
        spin_pause(e)
        fence(e)
    assert compile_module(module, module.target)
