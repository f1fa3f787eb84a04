"""Streams of the CPU: runs at the same time, each on cores and workers of its own.

The streams of all models that want as many of as many threads are the same: two models do not
disturb each other, they wait for a stream to be free.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

from afterglow.runtime.native.image import Image
from afterglow.runtime.native.machine import usable_cores
from afterglow.runtime.native.pool import Pool
from afterglow.runtime.native.stream_cores import divide_cores
from afterglow.runtime.native.topology import Core, own_cores
from afterglow.support.errors import warn

Result = TypeVar("Result")


class CpuStream:
    """One of several streams: its cores, and workers that stay on them."""

    def __init__(self, place: int, cores: Sequence[Core]) -> None:
        self.place = place
        self.cores = frozenset(core.number for core in cores)
        self.node = cores[0].node
        """The memory that is near to its cores, or to most of them."""
        self._pool: Pool | None = None

    def pool(self, image: Callable[[], Image]) -> Pool:
        """Its own workers, which its first run starts: they stay on the cores of that thread."""
        if self._pool is None:
            self._pool = Pool(image())
        return self._pool


class _Own(threading.local):
    """What a thread has of the streams: one now, and the one that it had last."""

    stream: CpuStream | None = None
    last: CpuStream | None = None


class StreamSet:
    """Streams that runs take, each one run at a time; who finds none free waits.

    While a thread has a stream, it uses only the cores of that one. It takes the stream that it had
    last, if it can: it is on one of those cores still.
    """

    def __init__(self, cores: Sequence[Sequence[Core]]) -> None:
        self.cores = cores
        """Those of each stream."""
        self._own = _Own()
        self._fill()

    def _fill(self) -> None:
        self._process = os.getpid()
        self._free = [CpuStream(place, cores) for place, cores in enumerate(self.cores)]
        self._tokens: SimpleQueue[None] = SimpleQueue()
        """One for each free stream."""
        for _ in self._free:
            self._tokens.put(None)

    @property
    def home(self) -> int:
        """The node of the memory that models are loaded into: that of the first stream."""
        return self.cores[0][0].node

    @property
    def held(self) -> CpuStream | None:
        """The stream that this thread has."""
        return self._own.stream

    def run(self, work: Callable[[], Result]) -> Result:
        """Do some work with a stream; a thread that has one keeps it."""
        own = self._own
        if own.stream is not None:
            return work()
        if self._process != os.getpid():
            self._fill()  # a fork left streams behind that nobody will give back
        free, tokens = self._free, self._tokens
        tokens.get()
        stream = own.stream = own.last = _taken(free, own.last)
        before = _cores_of_thread()
        try:
            _use_cores(stream.cores)
            return work()
        finally:
            _use_cores(before)
            own.stream = None
            free.append(stream)
            tokens.put(None)


def _taken(free: list[CpuStream], wanted: CpuStream | None) -> CpuStream:
    """A stream out of those that are free: one that is wanted, or any; there is one."""
    if wanted is not None:
        with suppress(ValueError):  # asking first would not help: another thread may take it
            free.remove(wanted)
            return wanted
    return free.pop()


def _cores_of_thread() -> Set[int]:
    """The cores that the calling thread may use; none where threads cannot be kept on cores."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _use_cores(cores: Set[int]) -> None:
    """Keep the calling thread on cores that it may have lost meanwhile: then it goes on."""
    if cores and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):
            os.sched_setaffinity(0, cores)


def stream_set(number: int, threads: int) -> StreamSet | None:
    """The streams of this process of so many threads each; None for one, which needs none."""
    if number == 1:
        return None
    cores = own_cores()
    key = (number, threads, cores)
    if key not in _SETS:
        # Of threads that come here at once one wins; a lock could be left taken by a fork.
        _SETS.setdefault(key, StreamSet(divide_cores(cores, number, threads)))
        _note_shared_cores(number, threads)
    return _SETS[key]


_SETS: dict[tuple[int, int, tuple[Core, ...]], StreamSet] = {}


def _note_shared_cores(number: int, threads: int) -> None:
    wanted, usable = number * threads, usable_cores()
    if wanted > usable:
        each = "1 thread" if threads == 1 else f"{threads} threads"
        warn(
            f"{number} streams of {each} want {wanted} cores, and this process may use {usable}: "
            "they share them"
        )
