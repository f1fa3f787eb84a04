"""A small model to run: a chain of steps, each of which needs all that the step before it wrote."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afterglow.backends.cpu import Emitter, Module, compile_module, load_host
from afterglow.backends.cpu.llvm.emitter import FunctionSymbol
from afterglow.runtime.native.convention import counter_bytes
from afterglow.runtime.native.pool import Pool
from afterglow.types import Array
from afterglow.types.dtype import i8, i64
from tests.backends.cpu.running import HOST

SCRATCH_BYTES = 128


@dataclass(frozen=True)
class Step:
    """A step of a chain: how many units it has, and in how many pieces they are handed out."""

    units: int
    chunks: int
    work: int = 1
    """Rounds of arithmetic for each unit."""


class Chain:
    """Of two arrays in turn, y[i] = (x[i] + x[last - i]) * 3 ** work + 1, modulo 2 ** 64."""

    def __init__(self, *steps: Step) -> None:
        self.steps = steps
        self.size = max([step.units for step in steps], default=0)
        module = Module(HOST)
        turns = [(step, number % 2) for number, step in enumerate(steps)]
        functions = {turn: _write_step(module, *turn) for turn in dict.fromkeys(turns)}
        with module.function("main") as e:
            _write_main(e, [(step, functions[step, source]) for step, source in turns])
        self._library = load_host(compile_module(module, HOST), module.exports, HOST)
        self.main = self._library.addresses["main"]

    def expected(self, start: Array) -> Array:
        """Both arrays after the last step, by NumPy."""
        arrays = start.copy()
        for number, step in enumerate(self.steps):
            x, y = arrays[number % 2][: step.units], arrays[1 - number % 2][: step.units]
            factor = np.array([pow(3, step.work, 1 << 64)], np.uint64).view(np.int64)
            y[:] = (x + x[::-1]) * factor + 1
        return arrays


class Run:
    """One caller of a chain, with memory of its own."""

    def __init__(self, chain: Chain, threads: int) -> None:
        self.start = np.arange(2 * chain.size, dtype=np.int64).reshape(2, -1) * 977
        self.arrays = self.start.copy()
        self.bases = np.array([row.ctypes.data for row in self.arrays], np.int64)
        self.scratch = np.zeros(threads * SCRATCH_BYTES, np.uint8)
        self.counters = np.full(counter_bytes(len(chain.steps) + 1, threads), 255, np.uint8)
        self.expected = chain.expected(self.start)
        self.chain = chain
        self.arguments = (
            chain.main,
            self.bases.ctypes.data,
            self.scratch.ctypes.data,
            SCRATCH_BYTES,
            self.counters.ctypes.data,
            len(chain.steps),
            threads,
        )

    def is_right(self, pool: Pool) -> bool:
        """Run the chain from its start, and compare every bit."""
        self.arrays[:] = self.start
        pool.run(*self.arguments)
        return bool((self.arrays == self.expected).all())


def _write_step(module: Module, step: Step, source: int) -> FunctionSymbol:
    with module.function("step", internal=True) as e:
        bases, scratch = e.pointer("bases", i64), e.pointer("scratch", i64)
        begin, end = e.count("begin"), e.count("end")
        x, y = (e.load_pointer(bases, place, i64) for place in (source, 1 - source))
        with e.loop(end, start=begin) as i:
            # Through scratch memory: threads that shared it would spoil each other's numbers.
            scratch.store(x.load(i) + (x + (step.units - 1)).load(0 - i))
            tripled = e.fold(step.work, [e.index(1)], lambda _, carried: [carried[0] * 3])
            y.store(scratch.load() * tripled[0] + 1, i)
    return e.function


def _write_main(e: Emitter, steps: list[tuple[Step, FunctionSymbol]]) -> None:
    bases, team = e.pointer("bases", i64), e.pointer("team", i64)
    parallel_for = e.load_pointer(team, 0, i8)
    for step, function in steps:
        place = e.address_of(function, i8)
        e.run_at(parallel_for, team, place, bases, e.index(step.units), e.index(step.chunks))
