"""Integers on small Arm processors: their own instructions give the numbers of all others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from afterglow.backends.cpu import Target
from afterglow.ops.quantization import QuantizeLinear
from afterglow.types import Array
from afterglow.types.dtype import DType, i4, i8, i16, u8
from tests.emulation.bench import EmulatedBench, machine_with
from tests.emulation.make import skip_without_emulator

M4 = "cortex-m4"


def run_all(benches: Sequence[EmulatedBench]) -> None:
    """Run benches on one machine; every result is what the definition of the op says."""
    kernels = [bench.kernel() for bench in benches]
    machine = machine_with(kernels, benches[0].target)
    for bench, kernel in zip(benches, kernels, strict=True):
        (result,) = bench.run_on(machine, kernel)
        np.testing.assert_array_equal(result, bench.values[bench.steps[-1].outs[0]])


def quantizing(x: Array, dtype: DType, zero_point: int) -> EmulatedBench:
    bench = EmulatedBench(Target.of(M4))
    zero = np.array(zero_point).astype(dtype.numpy)
    operands = (bench.input(x), bench.constant(np.float32(0.25)), bench.constant(zero))
    bench.steps_of(QuantizeLinear(dtype=dtype), *operands)
    return bench


def test_rounding_to_bytes_takes_the_even_of_two_and_the_nearest_of_what_is_too_large() -> None:
    skip_without_emulator(M4)
    halves = np.arange(-600, 600, dtype=np.float32) / 8
    far = np.array([np.inf, -np.inf, 1e30, -1e30, 2.0**29, -(2.0**29)], np.float32)
    x = np.concatenate([halves, far])
    pairs = itertools.chain(
        itertools.product((i8, i16, i4), (-3, 0, 7)), itertools.product((u8,), (0, 128, 255))
    )
    run_all([quantizing(x, dtype, zero) for dtype, zero in pairs])
