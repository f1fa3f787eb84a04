"""Many cases of ops as one program, because drivers take long to compile."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import afterglow as ag
from afterglow.graph import Builder, Function
from afterglow.testing.arrays import assert_close
from afterglow.testing.case_functions import owned
from afterglow.testing.cases import Case

LEAST_TOLERANCE = 1e-5


def check_cases(cases: Iterable[Case]) -> None:
    """Compile cases as one function for the first OpenCL device, and compare all results."""
    f = Function("main")
    inputs, wanted, tolerances = [], [], []
    for number, case in enumerate(cases):
        operands = [
            None if type is None else f.input(f"x{number}_{i}", type)
            for i, type in enumerate(case.types)
        ]
        for result in Builder(f).emit_all(owned(case.op, f), *operands):
            f.output(f"y{len(tolerances)}", result)
            tolerances.append(max(case.tolerance, LEAST_TOLERANCE))
        inputs += [array for array in case.inputs() if array is not None]
        wanted += case.wanted()
    feed = {placeholder.name: x for placeholder, x in zip(f.inputs, inputs, strict=True)}
    results = ag.compile(f.module, backend="opencl", cache=False).run(None, feed)
    for got, right, tolerance in zip(results, wanted, tolerances, strict=True):
        assert_close([np.asarray(got)], [right], tolerance)
