"""The pool in a process: several callers, forks, sleep, signals, and the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from afterglow.backends.cpu import Module, compile_module, load_host
from afterglow.backends.cpu.codegen.pool import link_pool, shared_pool
from afterglow.backends.cpu.llvm.emitter import equal, load_atomic, store_atomic
from afterglow.backends.cpu.threads import pool_module
from afterglow.runtime.native.convention import counter_bytes
from afterglow.runtime.native.pool import Pool
from afterglow.types.dtype import i32
from tests.backends.cpu.running import HOST
from tests.backends.cpu.threads.chain import SCRATCH_BYTES, Chain, Run, Step

ROOT = Path(__file__).parents[4]

SMALL = Chain(Step(64, 8, 40), Step(1, 1), Step(63, 5), Step(64, 64))
LONG = Chain(*[Step(64, 16, 100_000)] * 60)
"""A tenth of a second or so."""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


def holds_in_child(condition: Callable[[], bool], patience: float = 20.0) -> bool:
    """Whether a condition holds in a forked process; one that hangs is ended, and fails."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if condition() else 1)
        finally:
            os._exit(2)
    end = time.monotonic() + patience
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def cores_of_all_threads() -> list[set[int]]:
    return [os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task")]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not pin threads")
def test_a_worker_may_use_every_core_again_once_it_runs() -> None:
    """Whoever wakes workers keeps them off its own core, but only until they run."""
    for _ in range(20):
        time.sleep(0.002)  # longer than workers wait before they sleep
        assert workers_take_part(shared_pool())
    assert cores_of_all_threads().count(os.sched_getaffinity(0)) >= 2


def is_right_often(pool: Pool, threads: int = 3, times: int = 200) -> bool:
    run = Run(SMALL, threads)
    return all(run.is_right(pool) for _ in range(times))


def workers_take_part(pool: Pool) -> bool:
    """Whether another thread's scratch memory is used, at least once in several runs."""
    run = Run(LONG, 2)
    return any(run.is_right(pool) and run.scratch[SCRATCH_BYTES:].any() for _ in range(5))


def test_workers_take_part() -> None:
    assert workers_take_part(shared_pool())


def test_a_caller_that_finds_the_pool_busy_goes_on_alone() -> None:
    """The first caller's main tells that it runs, and ends only when it is told to."""
    module = Module(HOST)
    with module.function("main") as e:
        told, _ = e.pointer("bases", i32), e.pointer("team", i32)
        store_atomic(told, 1, 0)
        e.iterate([], lambda _: [], while_=lambda _: equal(load_atomic(told, 1), 0))
    library = load_host(compile_module(module, HOST), module.exports, HOST)
    told, scratch = np.zeros(2, np.int32), np.zeros(128, np.uint8)
    counters = np.zeros(counter_bytes(1, 2), np.uint8)
    addresses = (array.ctypes.data for array in (told, scratch))
    job = (library.addresses["main"], *addresses, 64, counters.ctypes.data, 1, 2)
    caller = threading.Thread(target=shared_pool().run, args=job)
    caller.start()
    while not told[0]:
        time.sleep(0.001)
    assert is_right_often(shared_pool())
    assert caller.is_alive()
    told[1] = 1
    caller.join()


@needs_fork
def test_a_child_of_a_process_without_workers() -> None:
    pool = Pool(link_pool(pool_module(HOST)))
    assert holds_in_child(lambda: is_right_often(pool) and workers_take_part(pool))
    assert is_right_often(pool)


@needs_fork
def test_a_child_of_a_process_with_workers_gets_its_own() -> None:
    for _ in range(5):
        assert is_right_often(shared_pool(), times=3)
        assert holds_in_child(lambda: is_right_often(shared_pool()))
    assert holds_in_child(lambda: workers_take_part(shared_pool()))
    assert holds_in_child(lambda: holds_in_child(lambda: workers_take_part(shared_pool())))


@needs_fork
def test_children_made_while_another_thread_runs() -> None:
    stop = threading.Event()
    wrong = []
    # before there are children: one that is forked while LLVM compiles would wait for its locks
    chains = [SMALL, Chain(*[Step(64, 16, 10_000)] * 10)]
    assert is_right_often(shared_pool())

    def call() -> None:
        runs = [Run(chain, 3) for chain in chains]
        while not stop.is_set():
            wrong.extend(run for run in runs if not run.is_right(shared_pool()))

    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
    try:
        assert all(holds_in_child(lambda: is_right_often(shared_pool())) for _ in range(25))
    finally:
        stop.set()
        for caller in callers:
            caller.join()
    assert not wrong


def test_an_idle_process_uses_no_time() -> None:
    """Three workers that waited awake would use more than a second; those asleep, nothing."""
    assert is_right_often(shared_pool(), threads=4)
    time.sleep(0.02)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.1


SCRIPT = """
import os, signal, sys, threading, time
from afterglow.backends.cpu.codegen.pool import shared_pool
from tests.backends.cpu.threads.chain import Chain, Run, Step
long = Run(Chain(*[Step(64, 16, 100_000)] * 60), 4)
small = Run(Chain(Step(64, 8, 40), Step(64, 8)), 4)
assert small.is_right(shared_pool())
"""


def run_script(lines: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT + lines],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment,
    )


@pytest.mark.parametrize(
    "lines",
    [
        "print('end')",
        "time.sleep(0.01); print('end')",
        "threading.Thread(target=long.is_right, args=(shared_pool(),), daemon=True).start()\n"
        "time.sleep(0.005); print('end')",
        "print('end', flush=True); os._exit(0)",
    ],
    ids=["awake", "asleep", "running", "at once"],
)
def test_a_process_ends_with_its_workers(lines: str) -> None:
    done = run_script(lines)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_signals_reach_python_after_a_run() -> None:
    # A process that was started in the background ignores interrupts; not so here.
    done = run_script("""
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in range(5):
    try:
        threading.Timer(0.005, os.kill, (os.getpid(), signal.SIGINT)).start()
        for _ in range(100_000):
            shared_pool().run(*long.arguments)
    except KeyboardInterrupt:
        continue
    sys.exit("the signal was lost")
assert small.is_right(shared_pool())
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system has no /proc")
def test_workers_get_no_signals() -> None:
    assert is_right_often(shared_pool(), threads=3, times=1)
    main = str(os.getpid())
    blocked = {}
    for task in Path("/proc/self/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        blocked[task.name] = next(int(line[8:], 16) for line in lines if line.startswith("SigBlk"))
    interrupt = 1 << (signal.SIGINT - 1)
    assert not blocked[main] & interrupt
    assert sum(bool(mask & interrupt) for mask in blocked.values()) >= 2
