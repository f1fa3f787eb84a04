"""The machine: its name, the most that it computes and reads, and how much others use it."""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np

from afterglow.backends.cpu import Emitter, Target
from afterglow.backends.cpu.llvm.emitter import Value
from afterglow.types.dtype import f32
from benchmarks.cpu_microkernel import build, peak
from benchmarks.results import Machine

CHAINS = 8
"""Sums that are formed side by side, so that none waits for another."""
PASSES = 60
"""Timings, of which the fastest counts."""
LEAST_MEMORY = 256 << 20
"""Bytes that no cache holds."""
LEAST_READ = 64 << 20
"""Bytes of one timing."""


def measure_machine(threads: list[int]) -> Machine:
    """Name and roofs of this machine, for numbers of threads."""
    target = Target.host()
    caches = target.caches
    cached = min(8 * caches.l2, caches.l3 // 2) if caches.l3 else caches.l2
    memory = max(LEAST_MEMORY, 8 * caches.l3)
    return Machine(
        processor=processor(),
        cores=os.cpu_count() or 1,
        day=datetime.now(UTC).strftime("%d %B %Y"),
        peak=peak(target, 12 if target.vector_registers < 32 else 20),
        cache_bytes=caches.l3 or caches.l2,
        cache_rates=_rates(target, cached, threads),
        memory_rates=_rates(target, memory, threads),
    )


def _rates(target: Target, size: int, threads: list[int]) -> dict[str, float]:
    """GB/s by number of threads; with more, at least what fewer reach."""
    rates: dict[str, float] = {}
    for count in sorted(threads):
        rates[str(count)] = max([read_rate(target, size // count, count), *rates.values()])
    return rates


def read_rate(target: Target, size: int, threads: int) -> float:
    """GB/s at which threads read arrays of so many bytes each, at best."""
    kernel, _ = build(_sum, target)
    lanes = target.vector_bits // 32
    steps = max(1, size // (4 * lanes * CHAINS))
    start, repeat = Barrier(threads), max(1, LEAST_READ // size)

    def read(_: int) -> list[tuple[float, float]]:
        array, out = np.ones(steps * lanes * CHAINS, np.float32), np.zeros(1024, np.float32)
        words = (steps, array.ctypes.data, out.ctypes.data, 0)
        return [_turn(lambda: kernel(*words), repeat, start) for _ in range(PASSES)]

    with ThreadPoolExecutor(threads) as pool:
        turns = list(zip(*pool.map(read, range(threads)), strict=True))
    spans = [max(end for _, end in turn) - min(begin for begin, _ in turn) for turn in turns]
    return 4e-9 * steps * lanes * CHAINS * repeat * threads / min(spans)


def _turn(call: Callable[[], Any], repeat: int, start: Barrier) -> tuple[float, float]:
    start.wait()
    begin = time.perf_counter()
    for _ in range(repeat):
        call()
    return begin, time.perf_counter()


def _sum(e: Emitter) -> None:
    """The sums of an array's vectors, so that every byte of it is read."""
    n, x, y = e.count("n"), e.pointer("x", f32), e.pointer("y", f32)
    e.pointer("unused", f32)
    lanes = e.lanes(f32)

    def step(i: Value, sums: list[Value]) -> list[Value]:
        line = x + i * (CHAINS * lanes)
        return [total + line.load(k * lanes, lanes) for k, total in enumerate(sums)]

    for i, total in enumerate(e.fold(n, [x.load(0, lanes)] * CHAINS, step)):
        y.store(total, i * lanes)


class Others:
    """The share of the machine's time that processes other than ours use, from now on."""

    def __init__(self) -> None:
        self._before = _used()

    def share(self) -> float:
        """So far; 0 where it cannot be known. Processes of ours count once they have ended."""
        total, busy, own = (now - then for now, then in zip(_used(), self._before, strict=True))
        return max(0.0, (busy - own) / total) if total else 0.0


def _used() -> tuple[float, float, float]:
    """Seconds of all cores: all together, those that were busy, and those that we used."""
    own = sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    try:
        words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0.0, 0.0, own
    ticks = [int(word) / os.sysconf("SC_CLK_TCK") for word in words]
    return sum(ticks), sum(ticks) - ticks[3] - ticks[4], own


def processor() -> str:
    """What the system calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")
