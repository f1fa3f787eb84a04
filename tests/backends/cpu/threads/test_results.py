"""Whoever computes, and in however many pieces: the results are those of one thread, bit by bit."""

from __future__ import annotations

import ctypes
import dataclasses
import threading
import time

import numpy as np
import pytest

from afterglow.backends.cpu import Module, compile_module, load_host
from afterglow.backends.cpu.codegen.pool import link_pool, shared_pool
from afterglow.backends.cpu.threads import pool_module, write_run_alone
from afterglow.backends.cpu.threads.system import ThreadSystem
from afterglow.runtime.native.pool import Pool
from tests.backends.cpu.running import HOST
from tests.backends.cpu.threads.chain import Chain, Run, Step

each_number_of_threads = pytest.mark.parametrize("threads", [1, 2, 3, 4])

MIXED = Chain(
    Step(64, 8, 40), Step(1, 1), Step(63, 5), Step(64, 64), Step(7, 7), Step(64, 1, 9), Step(64, 3)
)


@each_number_of_threads
@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 8, 33, 64])
def test_any_number_of_pieces(threads: int, chunks: int) -> None:
    run = Run(Chain(Step(64, chunks, 20), Step(99, chunks), Step(64, chunks)), threads)
    assert all(run.is_right(shared_pool()) for _ in range(20))


def test_more_threads_than_shares_take_more_chunks() -> None:
    run = Run(Chain(Step(1000, 512, 20), Step(999, 512), Step(1000, 512)), 20)
    assert all(run.is_right(shared_pool()) for _ in range(3))


@each_number_of_threads
def test_many_steps(threads: int) -> None:
    steps = [Step(1 + number % 50, 1 + number % 50 // (1 + number % 3)) for number in range(1000)]
    run = Run(Chain(*steps), threads)
    assert all(run.is_right(shared_pool()) for _ in range(5))


@each_number_of_threads
def test_thousands_of_runs(threads: int) -> None:
    run = Run(MIXED, threads)
    assert all(run.is_right(shared_pool()) for _ in range(2000))


def test_runs_after_the_workers_fell_asleep() -> None:
    run = Run(MIXED, 3)
    for pause in np.linspace(0, 2e-4, 300):
        time.sleep(pause)
        assert run.is_right(shared_pool())


def test_steps_so_long_that_who_waits_falls_asleep() -> None:
    run = Run(Chain(*[Step(3, 1, 500_000), Step(8, 3, 300_000)] * 8), 4)
    assert all(run.is_right(shared_pool()) for _ in range(3))


@pytest.mark.parametrize("threads", [1, 2])
def test_nothing_to_do(threads: int) -> None:
    assert Run(Chain(), threads).is_right(shared_pool())
    assert Run(Chain(Step(0, 0), Step(2, 2), Step(0, 0)), threads).is_right(shared_pool())


def test_more_threads_may_be_asked_for_later() -> None:
    assert all(Run(MIXED, threads).is_right(shared_pool()) for threads in (2, 6, 3, 12, 2, 1))


@pytest.fixture(scope="module")
def pool_with_condition() -> Pool:
    system = ThreadSystem.of(HOST)
    assert system is not None
    return Pool(link_pool(pool_module(HOST, dataclasses.replace(system, futex=None))))


@each_number_of_threads
def test_a_condition_variable_serves_without_futex(pool_with_condition: Pool, threads: int) -> None:
    run, slow = Run(MIXED, threads), Run(Chain(Step(3, 1, 500_000), Step(8, 3, 300_000)), threads)
    for pause in np.linspace(0, 2e-4, 100):
        time.sleep(pause)
        assert run.is_right(pool_with_condition)
    assert all(slow.is_right(pool_with_condition) for _ in range(10))


def test_alone_without_the_pool() -> None:
    module = Module(HOST)
    name = write_run_alone(module).name
    library = load_host(compile_module(module, HOST), module.exports, HOST)
    run = Run(MIXED, 1)
    library.function(name, *[ctypes.c_void_p] * 3)(*run.arguments[:3])
    assert (run.arrays == run.expected).all()


def test_a_soak_of_many_callers() -> None:
    """Four callers at once, models of several sizes and numbers of threads, for a second."""
    end = time.monotonic() + 1.0
    wrong = []

    def call(threads: int) -> None:
        runs = [Run(MIXED, threads), Run(Chain(Step(16, 8, 500), Step(16, 8)), threads)]
        while time.monotonic() < end:
            wrong.extend(run for run in runs if not run.is_right(shared_pool()))

    callers = [threading.Thread(target=call, args=(threads,)) for threads in (2, 3, 4, 2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong
