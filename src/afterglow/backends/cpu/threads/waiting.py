"""Waiting for a counter: by spinning, then yielding to other threads, then sleeping.

What is waited for is a cell: a word that counts up, and beside it how many threads sleep on it. So
whoever counts need not call the system unless somebody sleeps.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Operand,
    Order,
    Pointer,
    Value,
    fetch_add,
    load_atomic,
    spin_pause,
)
from afterglow.backends.cpu.threads.system import ThreadSystem, let_others_run
from afterglow.types.dtype import i32

SPIN_NANOSECONDS = 50_000
"""How long a thread keeps a core busy for nothing before it gives way."""
YIELDS = 100
"""How often a thread in a run then offers its core to others before it sleeps."""
_PAUSES = 32
"""Looks at the counter between two looks at the clock."""
_SLEEPERS = 1
"""Where in a cell the number of sleepers is."""


def wait_for(
    e: Emitter, system: ThreadSystem, cell: Pointer, target: Value, *, yields: int = 0
) -> None:
    """Return when the counter of a cell has reached a target, which may be past its overflow.

    Before the thread sleeps, it offers its core to others so many times.
    """
    wait = e.module.helper("pool_wait", lambda inner: _write_wait(inner, system))
    e.run(wait, cell, target, e.constant(i32, yields))


def count_up(cell: Pointer, count: Operand = 1) -> Value:
    """Add to the counter of a cell and return its new value; `wake_sleepers` follows."""
    return fetch_add(cell, count, order=Order.SEQUENTIAL) + count


def wake_sleepers(e: Emitter, system: ThreadSystem, cell: Pointer, count: Value) -> None:
    """Wake a number of the threads that sleep on a cell, after its counter has changed."""
    with e.when(has_sleepers(cell), likely=False):
        system.wake(e, cell, count)


def has_sleepers(cell: Pointer) -> Value:
    """Whether threads sleep on a cell."""
    return load_atomic(cell, _SLEEPERS, Order.SEQUENTIAL) > 0


def clear_cell(e: Emitter, cell: Pointer) -> None:
    """Set the counter to zero, where nobody waits."""
    e.zero(cell, _SLEEPERS + 1)


def _write_wait(e: Emitter, system: ThreadSystem) -> None:
    cell, target = e.pointer("cell", i32), e.argument("target", i32)
    yields = e.argument("yields", i32)
    _pause(e, cell, target)
    with e.when(_behind(cell, target), likely=False):
        _spin(e, system, cell, target)
        _give_way(e, cell, target, yields)
        _sleep(e, system, cell, target)


def _behind(cell: Pointer, target: Value, order: Order = Order.ACQUIRE) -> Value:
    return load_atomic(cell, order=order) - target < 0


def _pause(e: Emitter, cell: Pointer, target: Value) -> None:
    """Look at the counter a few times."""

    def look_again(state: list[Value]) -> list[Value]:
        spin_pause(e)
        return [state[0] - 1]

    e.iterate(
        [e.constant(i32, _PAUSES)],
        look_again,
        while_=lambda state: _behind(cell, target) & (state[0] > 0),
    )


def _spin(e: Emitter, system: ThreadSystem, cell: Pointer, target: Value) -> None:
    """Look at the counter for as long as is allowed; how long a pause takes, machines differ."""
    start = system.nanoseconds(e)

    def pause(_: list[Value]) -> list[Value]:
        _pause(e, cell, target)
        return [system.nanoseconds(e)]

    e.iterate(
        [start],
        pause,
        while_=lambda now: _behind(cell, target) & (now[0] - start < SPIN_NANOSECONDS),
    )


def _give_way(e: Emitter, cell: Pointer, target: Value, yields: Value) -> None:
    def give_way(state: list[Value]) -> list[Value]:
        let_others_run(e)
        return [state[0] - 1]

    e.iterate([yields], give_way, while_=lambda state: _behind(cell, target) & (state[0] > 0))


def _sleep(e: Emitter, system: ThreadSystem, cell: Pointer, target: Value) -> None:
    """Sleep until woken. Sleepers are counted first: who counts up later sees them."""
    fetch_add(cell, 1, _SLEEPERS, Order.SEQUENTIAL)

    def sleep(found: list[Value]) -> list[Value]:
        system.sleep(e, cell, found[0])
        return [load_atomic(cell, order=Order.SEQUENTIAL)]

    e.iterate(
        [load_atomic(cell, order=Order.SEQUENTIAL)],
        sleep,
        while_=lambda found: found[0] - target < 0,
    )
    fetch_add(cell, -1, _SLEEPERS, Order.SEQUENTIAL)
