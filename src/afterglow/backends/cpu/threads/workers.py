"""The threads of the pool: how they are started, given a job, and known to have finished it.

A job has places. A worker that is awake takes one, runs the job's main, and counts itself as left;
nobody waits for a worker that took none. A thread holds the pool while its job runs.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Pointer,
    Value,
    clamp,
    compare_exchange,
    convert,
    differ,
    exchange,
    fetch_add,
    load_atomic,
    store_atomic,
)
from afterglow.backends.cpu.threads.cores import Cores
from afterglow.backends.cpu.threads.system import ThreadSystem, process_number
from afterglow.backends.cpu.threads.team import run_as_member
from afterglow.backends.cpu.threads.waiting import (
    YIELDS,
    clear_cell,
    count_up,
    has_sleepers,
    wait_for,
    wake_sleepers,
)
from afterglow.types.dtype import boolean, i8, i32

_LINE = 64
_MAIN, _BASES, _SCRATCH, _SCRATCH_BYTES, _COUNTERS, _THREADS = range(6)
"""Words of the job."""


class Workers:
    """The memory of the pool, as one function sees it; each part has a cache line of its own."""

    def __init__(self, e: Emitter, system: ThreadSystem, *, recording: bool = False) -> None:
        self.e = e
        self.system = system
        self.recording = recording
        self.holder = self._words("holder")
        """The process of the thread that holds the pool; 0, or one gone, if none does."""
        self.home = self._words("home")
        """The process that the workers live in: not this one, if it was forked."""
        self.started = self._words("started")
        """How many workers were started."""
        self.places = self._words("places")
        """Places in the job that nobody took; 0 or less if there is nothing to take."""
        self.jobs = self._words("jobs")
        """A cell that counts jobs."""
        self.left = self._words("left")
        """A cell that counts the workers that left the job."""
        self.cores = Cores(e, system)
        self.job = e.module.storage(e, "pool_job", e.index_type, _LINE // e.index_type.itemsize)

    def _words(self, name: str) -> Pointer:
        return self.e.module.storage(self.e, f"pool_{name}", i32, _LINE // i32.itemsize)

    def hold(self) -> Value:
        """Take the pool for this thread; false if another thread has it.

        What a fork left behind is another process's number, and no obstacle.
        """
        process, found = process_number(self.e), load_atomic(self.holder)
        return self.e.branch(
            differ(found, process),
            lambda: [compare_exchange(self.holder, found, process)[1]],
            lambda: [self.e.constant(boolean, 0)],
        )[0]

    def release(self) -> None:
        """Let other threads take the pool."""
        store_atomic(self.holder, 0)

    def hire(self, count: Value) -> None:
        """Have at least so many workers; what a failure to start one costs is only time."""
        with self.e.when(differ(self.home.load(), self.holder.load()), likely=False):
            self._settle()
        started = self.started.load()
        with self.e.when(started < count, likely=False):
            self.started.store(count)
            work = self.e.module.helper(
                "pool_work",
                lambda e: Workers(e, self.system, recording=self.recording)._write_work(),
            )
            with self.e.loop(convert(count - started, self.e.index_type)):
                self.system.start_thread(self.e, work)

    def _settle(self) -> None:
        """Begin in this process, where no worker is."""
        for cell in (self.jobs, self.left):
            clear_cell(self.e, cell)
        for word in (self.places, self.started):
            word.store(self.e.constant(i32, 0))
        self.cores.settle()
        self.system.prepare_sleep(self.e)
        self.home.store(self.holder.load())

    def offer(
        self,
        threads: Value,
        main: Pointer,
        bases: Pointer,
        scratch: Pointer,
        scratch_bytes: Value,
        counters: Pointer,
    ) -> None:
        """Give the workers a job for so many threads, the caller among them, and wake them."""
        addresses = {_MAIN: main, _BASES: bases, _SCRATCH: scratch, _COUNTERS: counters}
        for word, address in addresses.items():
            self.e.store_pointer(self.job, word, address)
        self.job.store(scratch_bytes, _SCRATCH_BYTES)
        self.job.store(threads, _THREADS)
        count = convert(threads, i32) - 1
        store_atomic(self.left, 0)
        store_atomic(self.places, count)
        count_up(self.jobs)
        with self.e.when(has_sleepers(self.jobs), likely=False):
            self.cores.keep_off()
            self.system.wake(self.e, self.jobs, count)

    def close(self, count: Value) -> None:
        """Take back the places that are left of so many, and wait for the workers to leave."""
        free = clamp(exchange(self.places, 0), 0, None)
        wait_for(self.e, self.system, self.left, count - free, yields=YIELDS)

    def take_part(self, place: Value) -> None:
        """Run the job's main with the scratch memory of a place."""
        e, job, number = self.e, self.job, convert(place, self.e.index_type)
        main, bases = e.load_pointer(job, _MAIN, i8), e.load_pointer(job, _BASES, i8)
        scratch = e.load_pointer(job, _SCRATCH, i8) + number * job.load(_SCRATCH_BYTES)
        counters = e.load_pointer(job, _COUNTERS, i8)
        threads = job.load(_THREADS)
        run_as_member(
            *(e, self.system, main, bases, scratch, counters, number, threads),
            recording=self.recording,
        )

    def _write_work(self) -> None:
        """What a worker does until the process ends."""
        e = self.e
        number = self.cores.arrive()

        def work(_: list[Value]) -> list[Value]:
            seen = load_atomic(self.jobs)
            place = fetch_add(self.places, -1)
            self.cores.go_anywhere(number)
            with e.when(place > 0):
                self.take_part(place)
                count_up(self.left)
                wake_sleepers(e, self.system, self.left, e.constant(i32, 1))
            wait_for(e, self.system, self.jobs, seen + 1)
            return []

        e.iterate([], work, while_=lambda _: e.constant(boolean, 1))
