"""The operating system's services for threads: sleeping and waking, a clock, starting threads.

Everything that differs between systems is in this file.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    FunctionSymbol,
    Pointer,
    Value,
    convert,
    equal,
    load_atomic,
)
from afterglow.backends.cpu.llvm.types import POINTER
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import i8, i32, i64

IMPORTS = (
    "clock_gettime",
    "getpid",
    "pthread_attr_destroy",
    "pthread_attr_init",
    "pthread_attr_setstacksize",
    "pthread_cond_broadcast",
    "pthread_cond_init",
    "pthread_cond_wait",
    "pthread_create",
    "pthread_detach",
    "pthread_mutex_init",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_sigmask",
    "sched_getaffinity",
    "sched_getcpu",
    "sched_setaffinity",
    "sched_yield",
    "sigfillset",
    "syscall",
)
"""Functions of the C library that the code may call."""

STACK_BYTES = 2 << 20
"""Stack of a worker: C libraries differ in what they give unasked, some only 128 KiB."""

_FUTEX = {"x86": 202, "aarch64": 98, "riscv64": 98, "arm": 240}
_THREAD_NUMBER = {"x86": 186, "aarch64": 178, "riscv64": 178, "arm": 224}
_FUTEX_WAIT, _FUTEX_WAKE = 128, 129
ROOM = 256
"""Bytes that hold any system's set of signals or cores, attributes, mutex or condition."""


@dataclass(frozen=True)
class ThreadSystem:
    """An operating system with POSIX threads, and the numbers of its calls and constants."""

    monotonic_clock: int
    set_signal_mask: int
    futex: int | None = None
    """The system call to sleep on a word of memory; without it a condition variable serves."""
    thread_number: int | None = None
    """The system call that numbers threads; without it, threads run on whatever core they are."""

    @staticmethod
    def of(target: Target) -> ThreadSystem | None:
        """The system of a target; None where there is none with threads that we know."""
        if "linux" in target.triple:
            kind = target.architecture
            return ThreadSystem(1, 2, _FUTEX.get(kind), _THREAD_NUMBER.get(kind))
        if any(name in target.triple for name in ("darwin", "macos")):
            return ThreadSystem(6, 3)
        if "freebsd" in target.triple:
            return ThreadSystem(4, 3)
        return None

    def prepare_sleep(self, e: Emitter) -> None:
        """What must be done once in a process before threads sleep, a forked one included."""
        if self.futex is None:
            for kind in ("mutex", "cond"):
                initialise = _declare(e, f"pthread_{kind}_init", [POINTER, POINTER])
                _run(e, initialise, _shared(e, kind), _null(e))

    def sleep(self, e: Emitter, word: Pointer, value: Value) -> None:
        """Sleep while a word has a value; may also return too early."""
        if self.futex is not None:
            self._futex(e, word, _FUTEX_WAIT, convert(value, e.index_type))
            return
        mutex, condition = _shared(e, "mutex"), _shared(e, "cond")
        _run(e, _declare(e, "pthread_mutex_lock", [POINTER]), mutex)
        with e.when(equal(load_atomic(word), value)):
            _run(e, _declare(e, "pthread_cond_wait", [POINTER, POINTER]), condition, mutex)
        _run(e, _declare(e, "pthread_mutex_unlock", [POINTER]), mutex)

    def wake(self, e: Emitter, word: Pointer, count: Value) -> None:
        """Wake threads that sleep on a word, whose value has changed: so many, or more."""
        if self.futex is not None:
            self._futex(e, word, _FUTEX_WAKE, convert(count, e.index_type))
            return
        mutex = _shared(e, "mutex")
        # With the lock taken once, no thread is between its look at the word and its sleep.
        _run(e, _declare(e, "pthread_mutex_lock", [POINTER]), mutex)
        _run(e, _declare(e, "pthread_mutex_unlock", [POINTER]), mutex)
        _run(e, _declare(e, "pthread_cond_broadcast", [POINTER]), _shared(e, "cond"))

    def _futex(self, e: Emitter, word: Pointer, operation: int, number: Value) -> None:
        assert self.futex is not None
        kind = number.type
        call = e.module.declare("syscall", kind, [kind], variadic=True)
        numbers = [e.index(part) for part in (self.futex, operation)]
        e.call(call, numbers[0], word, numbers[1], number, _null(e), result=e.index_type)

    def nanoseconds(self, e: Emitter) -> Value:
        """The time on a clock that never goes back."""
        return e.call(e.module.helper("pool_clock", self._write_clock), result=i64)

    def _write_clock(self, e: Emitter) -> None:
        time = e.scratch(e.index_type, 2)
        read = _declare(e, "clock_gettime", ["i32", POINTER])
        _run(e, read, e.constant(i32, self.monotonic_clock), time)
        e.return_(convert(time.load(0), i64) * 1_000_000_000 + convert(time.load(1), i64))

    def core(self, e: Emitter) -> Value:
        """The core that this thread is on, if the system tells; else -1."""
        if self.thread_number is None:
            return e.constant(i32, -1)
        return _run(e, _declare(e, "sched_getcpu", []))

    def own_number(self, e: Emitter) -> Value:
        """The number by which the system knows this thread."""
        if self.thread_number is None:
            return e.constant(i32, 0)
        kind = e.index(0).type
        call = e.module.declare("syscall", kind, [kind], variadic=True)
        return convert(e.call(call, e.index(self.thread_number), result=e.index_type), i32)

    def read_cores(self, e: Emitter, cores: Pointer) -> None:
        """The cores that this thread may use, a bit each."""
        if self.thread_number is not None:
            e.zero(cores, ROOM)
            _run(e, self._affinity(e, "get"), e.constant(i32, 0), e.index(ROOM), cores)

    def set_cores(self, e: Emitter, thread: Value, cores: Pointer) -> None:
        """Let a thread use these cores only; if there are none, nothing changes."""
        if self.thread_number is not None:
            _run(e, self._affinity(e, "set"), thread, e.index(ROOM), cores)

    def _affinity(self, e: Emitter, verb: str) -> FunctionSymbol:
        return _declare(e, f"sched_{verb}affinity", ["i32", e.index(0).type, POINTER])

    def start_thread(self, e: Emitter, work: FunctionSymbol) -> None:
        """Start a thread that runs a function and gets no signals; if it cannot be, go on."""
        blocked, before, attributes = (e.scratch(i8, ROOM) for _ in range(3))
        thread = e.scratch(e.index_type, 1)
        mask = _declare(e, "pthread_sigmask", ["i32", POINTER, POINTER])
        how = e.constant(i32, self.set_signal_mask)
        _run(e, _declare(e, "sigfillset", [POINTER]), blocked)
        _run(e, mask, how, blocked, before)
        _run(e, _declare(e, "pthread_attr_init", [POINTER]), attributes)
        size = e.index(STACK_BYTES)
        _run(e, _declare(e, "pthread_attr_setstacksize", [POINTER, size.type]), attributes, size)
        create = _declare(e, "pthread_create", [POINTER] * 4)
        failed = _run(e, create, thread, attributes, e.address_of(work, i8), _null(e))
        with e.when(equal(failed, 0)):
            _run(e, _declare(e, "pthread_detach", [size.type]), thread.load())
        _run(e, _declare(e, "pthread_attr_destroy", [POINTER]), attributes)
        _run(e, mask, how, before, _null(e))


def process_number(e: Emitter) -> Value:
    """Which process this is: a forked one has another number than its parent."""
    return _run(e, _declare(e, "getpid", []))


def let_others_run(e: Emitter) -> None:
    """Offer the core to another thread that could use it."""
    _run(e, _declare(e, "sched_yield", []))


def _declare(e: Emitter, name: str, parameters: Sequence[str]) -> FunctionSymbol:
    return e.module.declare(name, "i32", parameters)


def _run(e: Emitter, function: FunctionSymbol, *arguments: Value | Pointer) -> Value:
    return e.call(function, *arguments, result=i32)


def _null(e: Emitter) -> Pointer:
    return Pointer(e, i8, "null")


def _shared(e: Emitter, kind: str) -> Pointer:
    return e.module.storage(e, f"pool_{kind}", i8, ROOM)
