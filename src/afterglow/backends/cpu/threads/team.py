"""Teams: the argument of a model's main through which steps run alone or with other threads.

A team is a few words of memory, the first of which is the function that does a step:

    parallel_for(team, step, bases, units, chunks)

It returns when `step(bases, scratch, begin, end)` has been done for all units. Main calls it for
each step in order; in a team of several, each thread runs the same main with a team of its own.

The chunks of a step are divided into shares, one for each thread. A thread begins with its own, so
that it reads what it wrote a step before, which is in its cache; then it helps the others. Shares
are gone through back and forth: a step begins with the chunk that the one before it ended with.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    FunctionSymbol,
    Module,
    Pointer,
    Value,
    convert,
    equal,
    fetch_add,
    load_atomic,
    quotient,
    remainder,
    select,
    smaller,
)
from afterglow.backends.cpu.threads.log import StepLog
from afterglow.backends.cpu.threads.system import ThreadSystem
from afterglow.backends.cpu.threads.waiting import YIELDS, count_up, wait_for, wake_sleepers
from afterglow.runtime.native.convention import (
    CHUNKS_OF_THREAD,
    COUNTER_BYTES,
    MOST_CHUNKS,
    MOST_SHARES,
)
from afterglow.types.dtype import i8, i32

_FUNCTION, _SCRATCH, _COUNTERS, _PLACE, _SHARES, _CHUNKS, _BACKWARDS = range(7)
"""Words of a team."""
_EVERYBODY = (1 << 31) - 1


def zero_counters(e: Emitter, counters: Pointer, steps: Value, threads: Value) -> None:
    """Set the counters of a run to zero."""
    e.zero(counters, steps * _counted(smaller(threads, MOST_SHARES)))


def _counted(shares: Value) -> Value:
    """Bytes of the counters of a step."""
    return (shares + 1) * COUNTER_BYTES


def run_alone(
    e: Emitter,
    main: Pointer,
    bases: Pointer,
    scratch: Pointer,
    recording: ThreadSystem | None = None,
) -> None:
    """Run a model's main on this thread only; with the clock of a system, steps are logged."""
    e.run_at(main, bases, _new_team(e, alone_function(e.module, recording), scratch))


def run_as_member(
    e: Emitter,
    system: ThreadSystem,
    main: Pointer,
    bases: Pointer,
    scratch: Pointer,
    counters: Pointer,
    place: Value,
    threads: Value,
    *,
    recording: bool = False,
) -> None:
    """Run a model's main as one of several threads that share the counters of its steps."""
    function = e.module.helper("pool_member", lambda inner: _write_member(inner, system, recording))
    team = _new_team(e, function, scratch)
    shares = smaller(threads, MOST_SHARES)
    e.store_pointer(team, _COUNTERS, counters)
    team.store(remainder(place, shares), _PLACE)
    team.store(shares, _SHARES)
    team.store(smaller(threads * CHUNKS_OF_THREAD, MOST_CHUNKS), _CHUNKS)
    team.store(e.index(0), _BACKWARDS)
    e.run_at(main, bases, team)


def alone_function(module: Module, recording: ThreadSystem | None = None) -> FunctionSymbol:
    """The parallel_for of one thread."""
    return module.helper("pool_alone", lambda e: _write_alone(e, recording))


def _new_team(e: Emitter, function: FunctionSymbol, scratch: Pointer) -> Pointer:
    team = e.scratch(e.index_type, _BACKWARDS + 1)
    e.store_pointer(team, _FUNCTION, e.address_of(function, i8))
    e.store_pointer(team, _SCRATCH, scratch)
    return team


def _parameters(e: Emitter) -> tuple[Pointer, Pointer, Pointer, Value, Value]:
    team, step = e.pointer("team", e.index_type), e.pointer("step", i8)
    return team, step, e.pointer("bases", i8), e.count("units"), e.count("chunks")


def _write_alone(e: Emitter, recording: ThreadSystem | None) -> None:
    team, step, bases, units, _ = _parameters(e)
    scratch = e.load_pointer(team, _SCRATCH, i8)
    log = None if recording is None else StepLog(e, recording, scratch)
    e.run_at(step, bases, scratch if log is None else log.scratch, e.index(0), units)
    if log is not None:
        log.share_done()
        log.done()


def _fewer(e: Emitter, chunks: Value, shares: Value, most: Value) -> Value:
    """Chunks enough for a team, where that can be of two or four or more neighbours each.

    So they begin where some of all chunks begin: with a stretch, if units have stretches.
    """

    def can_be_halved(state: list[Value]) -> Value:
        return (state[0] > most) & equal(remainder(state[0], shares * 2), 0)

    (fewer,) = e.iterate([chunks], lambda state: [state[0] >> 1], while_=can_be_halved)
    return select(fewer > most * 2, most, fewer)


def _write_member(e: Emitter, system: ThreadSystem, recording: bool) -> None:
    """Take chunks until none is left, then wait for those that others took."""
    team, step, bases, units, chunks = _parameters(e)
    scratch = e.load_pointer(team, _SCRATCH, i8)
    log = StepLog(e, system, scratch) if recording else None
    scratch = scratch if log is None else log.scratch
    counters = e.load_pointer(team, _COUNTERS, i8)
    place, shares, backwards = (team.load(word) for word in (_PLACE, _SHARES, _BACKWARDS))
    team.store(1 - backwards, _BACKWARDS)
    chunks = _fewer(e, chunks, shares, team.load(_CHUNKS))
    e.store_pointer(team, _COUNTERS, counters + _counted(shares))

    def do_chunks(number: Value, before: list[Value]) -> list[Value]:
        share = remainder(place + number, shares)
        first, end = (quotient((share + n) * chunks, shares) for n in (0, 1))
        taken = (counters + (share + 1) * COUNTER_BYTES).cast(i32)

        def take() -> Value:
            return first + e.index(fetch_add(taken, 1))

        def do_chunk(state: list[Value]) -> list[Value]:
            number, done = state
            chunk = select(equal(backwards, 1), first + end - 1 - number, number)
            begin = quotient(chunk * units, chunks)
            e.run_at(step, bases, scratch, begin, quotient((chunk + 1) * units, chunks))
            return [take(), done + 1]

        def begin_share() -> list[Value]:
            # Looking comes first: who counts in vain takes the line from those who work on it.
            left = first + e.index(load_atomic(taken)) < end
            return e.branch(left, lambda: [take()], lambda: [end])

        # A step of few chunks has empty shares: their lines of memory are not even looked at.
        start = e.branch(first < end, begin_share, lambda: [end])
        return [e.iterate([*start, *before], do_chunk, while_=lambda state: state[0] < end)[1]]

    mine = e.fold(shares, [e.constant(i32, 0)], do_chunks)[0]
    total, done = convert(chunks, i32), counters.cast(i32)
    if log is not None:
        log.share_done()
    # All of them at once: threads that write a line in turn wait for it each time.
    with e.when(mine > 0), e.when(equal(count_up(done, mine), total)):
        wake_sleepers(e, system, done, e.constant(i32, _EVERYBODY))
    wait_for(e, system, done, total, yields=YIELDS)
    if log is not None:
        log.done()
