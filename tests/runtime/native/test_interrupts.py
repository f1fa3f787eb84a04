"""Loops of machine code end when the user interrupts them, and at nothing else."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.backends.cpu import Target
from afterglow.backends.cpu.codegen.generate import generate
from afterglow.runtime import CompiledModel
from afterglow.runtime.native import interrupts
from afterglow.runtime.native.interrupts import QUIET, interruptible
from tests.frontends.models import BOOL, INT64, info, model, node

ENDLESS = np.array(2**62)
LONG = np.array(2**21)
X = np.zeros(4, np.float32)


def counting(limit: int | None = None) -> onnx.ModelProto:
    """A loop that adds one; its limit is an input unless it is given."""
    inner = onnx.helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["a", "one"], ["b"])],
        "body",
        [info("i", (), INT64), info("go", (), BOOL), info("a", (4,))],
        [info("on", (), BOOL), info("b", (4,))],
    )
    constants = {"one": np.ones(4, np.float32)}
    bound = {} if limit is None else {"n": np.array(limit)}
    return model(
        [node("Loop", ["n", "", "x"], ["y"], body=inner)],
        inputs=[info("x", (4,)), *([] if bound else [info("n", (), INT64)])],
        outputs=[info("y", (4,))],
        constants=constants | bound,
    )


@pytest.fixture(scope="module")
def counted() -> CompiledModel:
    return afterglow.compile(counting(), threads=2, cache=False)


@pytest.fixture(autouse=True)
def heeds_interrupts() -> Iterator[None]:
    """A process that was started in the background ignores interrupts; not so here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def send_soon(number: int) -> None:
    threading.Timer(0.1, os.kill, (os.getpid(), number)).start()


def test_a_loop_without_end_is_interrupted(counted: CompiledModel) -> None:
    send_soon(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        counted(X, ENDLESS)
    assert counted(X, np.array(5)).tolist() == [5.0] * 4
    assert signal.set_wakeup_fd(-1) == -1


def test_a_loop_whose_limit_is_a_constant_is_interrupted() -> None:
    compiled = afterglow.compile(counting(2**62), threads=1, cache=False)
    send_soon(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        compiled(X)


def test_a_loaded_model_is_interrupted(counted: CompiledModel, tmp_path: Path) -> None:
    counted.save(tmp_path / "loop.agc")
    loaded = afterglow.load(tmp_path / "loop.agc")
    send_soon(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        loaded(X, ENDLESS)


def test_only_loops_of_this_process_that_may_be_long_look(counted: CompiledModel) -> None:
    program, target = counted.compiled.program, Target.host()
    for_bundles = generate(program, target)
    assert "interrupts" not in for_bundles.loops[0].text
    assert "interrupts" in generate(program, target, interruptible=True).loops[0].text
    short = afterglow.compile(counting(200), cache=False).compiled
    assert not generate(short.program, target, interruptible=True).may_run_long


def test_other_signals_leave_a_loop_alone(counted: CompiledModel) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: seen.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.0005)
    result = counted(X, LONG)
    signal.signal(signal.SIGALRM, before)
    assert result.tolist() == [float(LONG)] * 4
    assert seen == [signal.SIGALRM]


def test_who_handles_interrupts_otherwise_gets_whole_results(counted: CompiledModel) -> None:
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    with interruptible() as cell:
        assert cell == QUIET
    threading.Timer(0.001, os.kill, (os.getpid(), signal.SIGINT)).start()
    while not seen:
        assert counted(X, LONG).tolist() == [float(LONG)] * 4


def test_the_wakeup_file_of_somebody_else_stays() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno())
    with interruptible() as cell:
        assert cell == QUIET
    assert signal.set_wakeup_fd(-1) == theirs.fileno()
    ours.close()
    theirs.close()


def test_only_the_main_thread_is_interrupted() -> None:
    cells: list[int] = []

    def look() -> None:
        with interruptible() as cell:
            cells.append(cell)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert cells == [QUIET]


def test_a_signal_is_noted_where_loops_look() -> None:
    with interruptible() as cell:
        assert cell != QUIET
        os.kill(os.getpid(), signal.SIGURG)  # which Python leaves to the system
        assert ctypes.string_at(cell, 2) == bytes(2)
        os.write(interrupts._CELLS[0].file, bytes([signal.SIGALRM]))
        assert ctypes.string_at(cell, 2) == bytes([signal.SIGALRM, 0])
    assert ctypes.string_at(cell, 2) == bytes(2)


def test_a_forked_process_has_a_cell_of_its_own() -> None:
    with interruptible():
        pass
    before = os.fstat(interrupts._CELLS[0].file).st_ino
    child = os.fork()
    if not child:
        with interruptible():
            os._exit(os.fstat(interrupts._CELLS[0].file).st_ino == before)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
