"""Affinity: keeping workers off the core of the thread that wakes them.

A system may wake a thread on the core where it slept last, even if that one is busy by now, and let
it wait there for milliseconds. So whoever wakes workers forbids them its own core until they run;
then they may go anywhere again.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    convert,
    differ,
    fetch_add,
    load_atomic,
    smaller,
    store_atomic,
)
from afterglow.backends.cpu.threads.system import ROOM, ThreadSystem
from afterglow.types.dtype import i32, u8

MOST = 256
"""Workers that are looked after; others wake wherever they do."""


class Cores:
    """The workers, and which of them are excluded from a core, in one function's code."""

    def __init__(self, e: Emitter, system: ThreadSystem) -> None:
        self.e = e
        self.system = system
        self.arrived = e.module.storage(e, "pool_arrived", i32, 16)
        self.threads = e.module.storage(e, "pool_threads", i32, MOST)
        """The system's number of each worker that has arrived."""
        self.kept_off = e.module.storage(e, "pool_kept_off", i32, MOST)
        """Whether a worker is excluded from a core."""
        self.allowed = e.module.storage(e, "pool_allowed", u8, ROOM)
        """The cores that the process may use."""

    def settle(self) -> None:
        """Begin in a process where no worker is."""
        store_atomic(self.arrived, 0)
        self.system.read_cores(self.e, self.allowed)

    def arrive(self) -> Value:
        """Be known as a worker; returns its place among them."""
        place = fetch_add(self.arrived, 1)
        with self.e.when(place < MOST):
            store_atomic(self.threads, self.system.own_number(self.e), self.e.index(place))
        return place

    def go_anywhere(self, place: Value) -> None:
        """Let this worker, which runs now, use every core again."""
        with self.e.when(place < MOST):
            index = self.e.index(place)
            with self.e.when(differ(load_atomic(self.kept_off, index), 0), likely=False):
                store_atomic(self.kept_off, 0, index)
                self.system.set_cores(self.e, self.e.constant(i32, 0), self.allowed)

    def keep_off(self) -> None:
        """Forbid all workers the core of this thread."""
        if self.system.thread_number is not None:
            self.e.run(self.e.module.helper("pool_keep_off", self._write_keep_off))

    def _write_keep_off(self, e: Emitter) -> None:
        cores = Cores(e, self.system)
        others = e.scratch(u8, ROOM)
        core = self.system.core(e)
        with e.when((core >= 0) & (core < 8 * ROOM)):
            e.copy(others, cores.allowed, ROOM)
            _clear_bit(others, core)
            with e.loop(e.index(smaller(load_atomic(cores.arrived), MOST))) as place:
                store_atomic(cores.kept_off, 1, place)
                self.system.set_cores(e, load_atomic(cores.threads, place), others)


def _clear_bit(bits: Pointer, number: Value) -> None:
    place: Index = convert(number >> 3, bits.code.index_type)
    bit = Value.of(bits.code, u8, 1) << convert(number & 7, u8)
    bits.store(bits.load(place) & ~bit, place)
