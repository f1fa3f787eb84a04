"""How fast each core is, alone and beside the others, which of them to use, and if they slow down.

Cores of a shared machine run at half speed at times: so each is measured more than once, and those
of a cell again before and after each of its turns.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from afterglow.backends.cpu import Emitter, Target
from afterglow.backends.cpu.llvm.emitter import Value, fma
from afterglow.types.dtype import f32
from benchmarks.cpu_microkernel import build

TURN = 100_000
"""Multiplications of each chain between two looks at the clock."""
CPUS = Path("/sys/devices/system/cpu")
ROUNDS = 3
"""How often each core is measured alone; the slowest time counts."""
SPIN = 0.01
"""Seconds in which the speed of cores is checked."""
FORK = 0.004
"""Seconds in which a process for a core is started."""

Spin = Callable[[Sequence[int], float], list[float]]
"""GFLOP/s of each of some cores while all of them compute for so many seconds."""


@dataclass(frozen=True)
class Cores:
    """Usable cores in the order in which they are taken; GFLOP/s of each, by its number."""

    order: tuple[int, ...]
    alone: dict[int, float]
    together: dict[int, float]

    spin: Spin

    def first(self, count: int) -> list[int]:
        """Those that so many threads are pinned to."""
        return sorted(self.order[:count])

    def again(self) -> Cores:
        """The same cores in the order of what they do now."""
        rates = {core: self.spin([core], SPIN)[0] for core in self.order}
        return Cores(_ordered(rates), self.alone, self.together, self.spin)

    def lines(self) -> list[str]:
        """What was measured, as text."""
        rates = [f"{core}:{self.alone[core]:.0f}/{self.together[core]:.0f}" for core in self.order]
        most, sum_ = max(self.alone.values()), sum(self.together.values())
        return [
            f"cores, GFLOP/s alone/all together: {' '.join(rates)}",
            f"one core {most:.0f}, all {sum_:.0f}: {sum_ / most:.1f} cores' worth",
        ]


@dataclass
class SpeedWatch:
    """Compares the speed of sets of cores with the best that each set ever had."""

    spin: Spin
    _best: dict[tuple[int, ...], list[float]] = field(default_factory=dict)

    def speed(self, cores: Sequence[int]) -> float:
        """The rate of the slowest of these cores, relative to the best that it had among them."""
        rates = self.spin(cores, SPIN)
        known = self._best.setdefault(tuple(cores), rates)
        best = [max(pair) for pair in zip(known, rates, strict=True)]
        self._best[tuple(cores)] = best
        return min(rate / most for rate, most in zip(rates, best, strict=True))


def measure_cores(seconds: float = 0.05) -> Cores:
    """Time multiply-adds on each core alone, then on all; the fastest come first."""
    kernel, work = _kernel(Target.host())

    def spin(cores: Sequence[int], length: float) -> list[float]:
        return _together(kernel, work, cores, length)

    usable = sorted(os.sched_getaffinity(0))
    turns = [[spin([core], seconds)[0] for core in usable] for _ in range(ROUNDS)]
    alone = dict(zip(usable, (min(rates) for rates in zip(*turns, strict=True)), strict=True))
    together = dict(zip(usable, spin(usable, 4 * seconds), strict=True))
    slowest = {core: min(alone[core], together[core]) for core in usable}
    return Cores(_ordered(slowest), alone, together, spin)


def _ordered(rates: dict[int, float]) -> tuple[int, ...]:
    return chosen_order(rates, {core: siblings(core) for core in rates})


def chosen_order(rates: dict[int, float], shared: dict[int, set[int]]) -> tuple[int, ...]:
    """The fastest first; second threads of a core, which share its units, last."""
    first = {core for core in rates if core == min(shared[core] & rates.keys() | {core})}
    return tuple(sorted(rates, key=lambda core: (core not in first, -rates[core], core)))


def siblings(core: int) -> set[int]:
    """The numbers under which the system knows the same core."""
    try:
        text = (CPUS / f"cpu{core}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return {core}
    spans = [[int(end) for end in part.split("-")] for part in text.strip().split(",")]
    return {number for span in spans for number in range(span[0], span[-1] + 1)}


def _kernel(target: Target) -> tuple[Callable[[int], None], float]:
    """A function that repeats multiply-adds in independent chains, and the FLOPs of a repeat."""
    chains, lanes = 12 if target.vector_registers < 32 else 20, target.vector_bits // 32

    def write(e: Emitter) -> None:
        n, x, y = e.count("n"), e.pointer("x", f32), e.pointer("y", f32)
        e.pointer("unused", f32)
        a, b = x.load(0, e.lanes(f32)), x.load(e.lanes(f32), e.lanes(f32))

        def step(_: Value, sums: list[Value]) -> list[Value]:
            return [fma(a, b, total) for total in sums]

        for i, total in enumerate(e.fold(n, [a] * chains, step)):
            y.store(total, i * e.lanes(f32))

    room = np.zeros(4096, np.float32)
    kernel, _ = build(write, target)
    return lambda count: kernel(count, room.ctypes.data, room.ctypes.data + 1024, 0), float(
        2 * chains * lanes
    )


def _together(
    kernel: Callable[[int], None], work: float, cores: Sequence[int], seconds: float
) -> list[float]:
    """GFLOP/s of each core while all of these compute."""
    start = time.perf_counter() + FORK * len(cores)
    children = [_child(kernel, work, core, start, seconds) for core in cores]
    rates = []
    for process, pipe in children:
        rates.append(struct.unpack("d", os.read(pipe, 8))[0])
        os.close(pipe)
        os.waitpid(process, 0)
    return rates


def _child(
    kernel: Callable[[int], None], work: float, core: int, start: float, seconds: float
) -> tuple[int, int]:
    """A process pinned to a core, and the pipe from which its rate comes."""
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader
    os.sched_setaffinity(0, {core})
    time.sleep(max(0.0, start - time.perf_counter()))
    turns, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        kernel(TURN)
        turns += 1
    os.write(writer, struct.pack("d", turns * TURN * work / (time.perf_counter() - begin) / 1e9))
    os._exit(0)
