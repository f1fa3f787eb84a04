"""Kernels of every op on every machine that can be emulated: right numbers there too."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.codegen.write import keeps
from afterglow.ops.linear import MatMul
from afterglow.testing.arrays import assert_close
from afterglow.testing.cases import CASES
from afterglow.testing.cases.case import Case
from afterglow.types.dtype import bf16, f16
from tests.backends.cpu.kernels.harness import has_kernel
from tests.emulation.bench import EmulatedBench, machine_with
from tests.emulation.machine import EmulatorError
from tests.emulation.make import EMULATED, skip_without_emulator

AT_ONCE = 40
"""Kernels that are linked together."""


def bench_of(case: Case, target: Target) -> EmulatedBench:
    """The case as a kernel's work; every second one has constants."""
    bench = EmulatedBench(target)
    constants = hash_of(case) % 2
    operands = [
        None if x is None else bench.constant(x) if constants and place else bench.input(x)
        for place, x in enumerate(case.inputs())
    ]
    bench.steps_of(case.op, *operands)
    return bench


def hash_of(case: Case) -> int:
    """A number that is the same each time."""
    return sum(str(case).encode())


def runs_natively(case: Case) -> bool:
    """Whether a kernel does the work of a case."""
    if not keeps(case.op):
        return False
    target = Target.of("x86-64")
    job = bench_of(case, target).job()
    return not job.is_empty and has_kernel(job, target)


def one_of_each_op(number: int) -> list[Case]:
    """A case of every op that has a kernel; other numbers, other cases."""
    by_op: dict[type, list[Case]] = {}
    for case in filter(runs_natively, CASES):
        by_op.setdefault(type(case.op), []).append(case)
    return [cases[number % len(cases)] for cases in by_op.values()]


def check(cases: Sequence[Case], target: Target) -> list[str]:
    """Run cases; what went wrong."""
    benches = [bench_of(case, target) for case in cases]
    kernels = [bench.kernel() for bench in benches]
    machine = machine_with(kernels, target)
    problems = []
    for case, bench, kernel in zip(cases, benches, kernels, strict=True):
        wanted = tuple(bench.values[out] for out in bench.steps[0].outs)
        try:
            results = [np.array(result) for result in bench.run_on(machine, kernel)]
            assert_close(tuple(results), wanted, case.tolerance)
        except EmulatorError:
            continue
        except AssertionError as error:
            problems.append(f"{case}: {error}")
    if machine.misaligned:
        problems.append(f"misaligned accesses: {machine.misaligned}")
    return problems


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EMULATED)
def test_a_case_of_each_op(name: str) -> None:
    skip_without_emulator(name)
    cases = one_of_each_op(EMULATED.index(name))
    parts = [cases[start : start + AT_ONCE] for start in range(0, len(cases), AT_ONCE)]
    assert not [problem for part in parts for problem in check(part, Target.of(name))]


@pytest.mark.parametrize("name", EMULATED)
def test_weights_held_in_16_bits(name: str) -> None:
    skip_without_emulator(name)
    target, rng = Target.of(name), np.random.default_rng(3)
    benches = []
    for dtype, (rows, depth, columns) in itertools.product((bf16, f16), ((1, 37, 50), (9, 20, 21))):
        bench = EmulatedBench(target)
        weight = rng.standard_normal((depth, columns)).astype(dtype.numpy)
        x = rng.standard_normal((rows, depth)).astype(np.float32)
        bench.steps_of(MatMul(), bench.input(x), bench.constant(weight))
        benches.append(bench)
    kernels = [bench.kernel() for bench in benches]
    machine = machine_with(kernels, target)
    for bench, kernel in zip(benches, kernels, strict=True):
        (result,) = bench.run_on(machine, kernel)
        np.testing.assert_allclose(result, bench.values[bench.steps[0].outs[0]], 1e-5, 1e-5)
