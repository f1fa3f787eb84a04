"""Every case of every op on its CPU kernel: right, and the same however its work is cut."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.codegen.write import keeps
from afterglow.testing.arrays import assert_close
from afterglow.testing.cases import CASES
from afterglow.testing.cases.case import Case
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench, has_kernel

PIECES = 3


def bench_of(case: Case, target: Target | None = None, *, constants: bool) -> Bench:
    """The case as a kernel's work; with constants, all operands but the first are known."""
    bench = Bench(target)
    operands = [
        None
        if array is None
        else bench.constant(array)
        if constants and index > 0
        else bench.input(array)
        for index, array in enumerate(case.inputs())
    ]
    bench.steps_of(case.op, *operands)
    return bench


def same_bits(a: Array, b: Array) -> bool:
    return a.tobytes() == b.tobytes()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("constants", [False, True], ids=["", "constants"])
@pytest.mark.parametrize("case", [case for case in CASES if keeps(case.op)], ids=str)
def test_kernel(case: Case, constants: bool) -> None:
    bench = bench_of(case, constants=constants)
    if bench.job().is_empty:
        pytest.skip("nothing to compute")
    if not has_kernel(bench.job(), bench.target):
        pytest.skip("no kernel for these operands: it is lowered, or runs on the host")
    wanted = tuple(bench.values[out] for out in bench.steps[0].outs)
    whole = [np.array(result) for result in bench.run()]
    assert_close(tuple(whole), wanted, case.tolerance)
    cut = bench.run(PIECES)
    assert all(map(same_bits, whole, cut))
