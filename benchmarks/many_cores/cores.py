"""How fast each core is, alone and beside the others, and which of them to use."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from afterglow.backends.cpu import Emitter, Target
from afterglow.backends.cpu.llvm.emitter import Value, fma
from afterglow.types.dtype import f32
from benchmarks.cpu_microkernel import build

TURN = 100_000
"""Multiplications of each chain between two looks at the clock."""
CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Cores:
    """Usable cores in the order in which they are taken; GFLOP/s of each, by its number."""

    order: tuple[int, ...]
    alone: dict[int, float]
    together: dict[int, float]

    def first(self, count: int) -> list[int]:
        """Those that so many threads are pinned to."""
        return sorted(self.order[:count])

    def lines(self) -> list[str]:
        """What was measured, as text."""
        rates = [f"{core}:{self.alone[core]:.0f}/{self.together[core]:.0f}" for core in self.order]
        most, sum_ = max(self.alone.values()), sum(self.together.values())
        return [
            f"cores, GFLOP/s alone/all together: {' '.join(rates)}",
            f"one core {most:.0f}, all {sum_:.0f}: {sum_ / most:.1f} cores' worth",
        ]


def measure_cores(seconds: float = 0.15) -> Cores:
    """Time multiply-adds on each core alone, then on all; the fastest come first."""
    kernel, work = _kernel(Target.host())
    usable = sorted(os.sched_getaffinity(0))
    alone = {core: _together(kernel, work, [core], seconds)[0] for core in usable}
    together = dict(zip(usable, _together(kernel, work, usable, 2 * seconds), strict=True))
    return Cores(chosen_order(together, {core: siblings(core) for core in usable}), alone, together)


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
    start = time.perf_counter() + 0.03
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
