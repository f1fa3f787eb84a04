"""Teams: what a model's main is given, through which its steps are done alone or with others.

A team is a few words of memory, the first of which is the function that does a step:

    parallel_for(team, step, bases, units, chunks)

It returns when `step(bases, scratch, begin, end)` has been done for all units. Main calls it for
each step in order; in a team of several, each thread runs the same main with a team of its own.
"""

from __future__ import annotations

from afterglow.backends.cpu.emitter import (
    Emitter,
    Function,
    Module,
    Pointer,
    Value,
    convert,
    equal,
    fetch_add,
    quotient,
)
from afterglow.backends.cpu.pool.system import System
from afterglow.backends.cpu.pool.waiting import YIELDS, count_up, wait_for, wake_sleepers
from afterglow.types.dtype import i8, i32

COUNTER_BYTES = 64
"""Counters of a step have a cache line of their own."""

_FUNCTION, _SCRATCH, _COUNTERS = range(3)
"""Words of a team."""
_NEXT, _DONE = 0, 1
"""Words of a step's counters: the next chunk to hand out, and a cell that counts those done."""
_EVERYBODY = (1 << 31) - 1


def run_alone(e: Emitter, main: Pointer, bases: Pointer, scratch: Pointer) -> None:
    """Run a model's main on this thread only."""
    _run_in_team(e, alone_function(e.module), main, bases, scratch, None)


def run_as_member(
    e: Emitter, system: System, main: Pointer, bases: Pointer, scratch: Pointer, counters: Pointer
) -> None:
    """Run a model's main as one of several threads that share the counters of its steps."""
    function = e.module.helper("pool_member", lambda inner: _write_member(inner, system))
    _run_in_team(e, function, main, bases, scratch, counters)


def alone_function(module: Module) -> Function:
    """The parallel_for of one thread."""
    return module.helper("pool_alone", _write_alone)


def _run_in_team(
    e: Emitter,
    function: Function,
    main: Pointer,
    bases: Pointer,
    scratch: Pointer,
    counters: Pointer | None,
) -> None:
    team = e.scratch(e.index_type, 3)
    e.store_pointer(team, _FUNCTION, e.address_of(function, i8))
    e.store_pointer(team, _SCRATCH, scratch)
    if counters is not None:
        e.store_pointer(team, _COUNTERS, counters)
    e.run_at(main, bases, team)


def _parameters(e: Emitter) -> tuple[Pointer, Pointer, Pointer, Value, Value]:
    team, step = e.pointer("team", e.index_type), e.pointer("step", i8)
    return team, step, e.pointer("bases", i8), e.count("units"), e.count("chunks")


def _write_alone(e: Emitter) -> None:
    team, step, bases, units, _ = _parameters(e)
    e.run_at(step, bases, e.load_pointer(team, _SCRATCH, i8), e.index(0), units)


def _write_member(e: Emitter, system: System) -> None:
    """Take chunks until none is left, then wait for those that others took."""
    team, step, bases, units, chunks = _parameters(e)
    scratch = e.load_pointer(team, _SCRATCH, i8)
    counters = e.load_pointer(team, _COUNTERS, i32)
    e.store_pointer(team, _COUNTERS, counters + COUNTER_BYTES // i32.itemsize)
    total, done = convert(chunks, i32), counters + _DONE

    def do_chunk(state: list[Value]) -> list[Value]:
        chunk, mine = state
        before = e.index(chunk) * units
        begin, end = quotient(before, chunks), quotient(before + units, chunks)
        e.run_at(step, bases, scratch, begin, end)
        return [fetch_add(counters, 1, _NEXT), mine + 1]

    first = [fetch_add(counters, 1, _NEXT), e.constant(i32, 0)]
    _, mine = e.iterate(first, do_chunk, while_=lambda state: state[0] < total)
    # All of them at once: threads that write a line in turn wait for it each time.
    with e.when(mine > 0), e.when(equal(count_up(done, mine), total)):
        wake_sleepers(e, system, done, e.constant(i32, _EVERYBODY))
    wait_for(e, system, done, total, yields=YIELDS)
