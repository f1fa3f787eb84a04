"""How near the example matmul of the CPU backend comes to this machine's peak, on one core.

Run `python benchmarks/cpu_microkernel.py`. Times are the process's own, so that neighbours on the
machine disturb little; the best of several runs counts.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from afterglow.backends.cpu import Emitter, Module, Target, compile_module, load_host
from afterglow.backends.cpu.llvm.emitter import Value, fma
from afterglow.types.dtype import f32
from tests.backends.cpu.llvm.emitter.example_kernels import matmul_tiles

DEPTH, TILES, ROUNDS = 256, 300, 40
SHAPES = {"x86-64-v3": [(6, 2), (4, 3)], "host": [(6, 2), (12, 2), (8, 3)]}


def build(write: Callable[[Emitter], None], target: Target) -> tuple[Any, float]:
    """A kernel that takes a count and three addresses; and how long it took, in milliseconds."""
    start = time.perf_counter()
    module = Module(target)
    with module.function("kernel") as e:
        write(e)
    library = load_host(compile_module(module, target), ["kernel"], target)
    kinds = [ctypes.c_int64, *[ctypes.c_void_p] * 3]
    return library.function("kernel", *kinds), (time.perf_counter() - start) * 1e3


def best_seconds(call: Callable[[], None]) -> float:
    """The least time of one call."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def peak(target: Target, chains: int = 20) -> float:
    """GFLOP/s of nothing but fused multiply-adds, in enough independent chains."""

    def write(e: Emitter) -> None:
        n, x, y = e.count("n"), e.pointer("x", f32), e.pointer("y", f32)
        e.pointer("unused", f32)
        lanes = e.lanes(f32)
        a, b = x.load(0, lanes), x.load(lanes, lanes)

        def step(_: Value, sums: list[Value]) -> list[Value]:
            return [fma(a, b, total) for total in sums]

        for i, total in enumerate(e.fold(n, [a] * chains, step)):
            y.store(total, i * lanes)

    count = 300_000
    room = np.zeros(4096, np.float32)
    kernel, _ = build(write, target)
    address = room.ctypes.data
    seconds = best_seconds(lambda: kernel(count, address, address + 1024, 0))
    return 2e-9 * count * chains * (target.vector_bits // 32) / seconds


def aligned(size: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Random numbers at an address that is a multiple of 64."""
    room = np.random.default_rng(0).normal(size=size + 16).astype(np.float32)
    start = (-room.ctypes.data // 4) % 16
    return room[start : start + size]


def matmul(target: Target, rows: int, vectors: int) -> tuple[float, float]:
    """GFLOP/s of the example kernel, and milliseconds to make it."""
    kernel, made = build(lambda e: matmul_tiles(e, rows, vectors, DEPTH), target)
    width = vectors * target.vector_bits // 32
    a, b = aligned(TILES * rows * DEPTH), aligned((DEPTH + 16) * width)
    c = aligned(TILES * rows * width)
    places = [array.ctypes.data for array in (a, b, c)]
    seconds = best_seconds(lambda: kernel(TILES, *places))
    return 2e-9 * TILES * rows * width * DEPTH / seconds, made


def main() -> None:
    """Print a table."""
    print(f"{'target':12} {'tile':>7} {'GFLOP/s':>9} {'of peak':>8} {'made in':>9}")
    for name, shapes in SHAPES.items():
        target = Target.of(name)
        if target.missing_on(Target.host()):
            continue
        most = peak(target, 12 if target.vector_registers < 32 else 20)
        print(f"{name:12} {'peak':>7} {most:9.1f}")
        for rows, vectors in shapes:
            rate, made = matmul(target, rows, vectors)
            tile = f"{rows}x{vectors * target.vector_bits // 32}"
            print(f"{name:12} {tile:>7} {rate:9.1f} {rate / most:8.0%} {made:6.0f} ms")


if __name__ == "__main__":
    main()
