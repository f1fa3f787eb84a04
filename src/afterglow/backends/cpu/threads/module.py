"""The native code of the pool: two functions that run a model's main."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    FunctionSymbol,
    Module,
    Pointer,
    Value,
    convert,
)
from afterglow.backends.cpu.target import Target
from afterglow.backends.cpu.threads.system import ThreadSystem
from afterglow.backends.cpu.threads.team import run_alone, zero_counters
from afterglow.backends.cpu.threads.workers import Workers
from afterglow.runtime.native.convention import RUN, RUN_ALONE
from afterglow.types.dtype import boolean, i8, i32


def pool_module(
    target: Target, system: ThreadSystem | None = None, *, recording: bool = False
) -> Module:
    """The pool's code; where no system with threads is known, every run is alone.

    The threads of a pool that is `recording` keep logs, in front of their scratch memory.
    """
    module = Module(target)
    system = system or ThreadSystem.of(target)
    write_run_alone(module, system if recording else None)
    with module.function(RUN) as e:
        _write_run(e, system, recording)
    return module


def write_run_alone(module: Module, recording: ThreadSystem | None = None) -> FunctionSymbol:
    """Write `afterglow_run_alone`, which needs nothing of the pool: a model may have its own."""
    with module.function(RUN_ALONE) as e:
        main, bases, scratch = (e.pointer(name, i8) for name in ("main", "bases", "scratch"))
        run_alone(e, main, bases, scratch, recording)
    return e.function


def _write_run(e: Emitter, system: ThreadSystem | None, recording: bool) -> None:
    main, bases, scratch = (e.pointer(name, i8) for name in ("main", "bases", "scratch"))
    size, counters = e.count("scratch_bytes"), e.pointer("counters", i8)
    steps, threads = e.count("steps"), e.count("threads")
    if system is None:
        run_alone(e, main, bases, scratch)
        return
    workers = Workers(e, system, recording=recording)
    held = e.branch(
        (threads > 1) & (steps > 0), lambda: [workers.hold()], lambda: [e.constant(boolean, 0)]
    )[0]

    def together() -> list[Value]:
        zero_counters(e, counters, steps, threads)
        _run_together(workers, main, bases, scratch, size, counters, threads)
        return []

    def alone() -> list[Value]:
        run_alone(e, main, bases, scratch, system if recording else None)
        return []

    e.branch(held, together, alone)


def _run_together(
    workers: Workers,
    main: Pointer,
    bases: Pointer,
    scratch: Pointer,
    scratch_bytes: Value,
    counters: Pointer,
    threads: Value,
) -> None:
    others = convert(threads, i32) - 1
    workers.hire(others)
    workers.offer(threads, main, bases, scratch, scratch_bytes, counters)
    workers.take_part(workers.e.constant(i32, 0))
    workers.close(others)
    workers.release()
