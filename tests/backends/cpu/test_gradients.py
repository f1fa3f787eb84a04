"""The gradient of a case of each op, as machine code and by definition."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.graph import Builder, Function, run_function
from afterglow.testing.cases.case import Case
from afterglow.types.dtype import f32
from tests.autodiff.differences import with_gradients
from tests.autodiff.test_op_cases import SMOOTH, WITHOUT_GRADIENT


def is_single(case: Case) -> bool:
    return all(t is None or t.dtype is f32 or not t.dtype.is_float for t in case.types)


ONE_EACH = {
    case.op.mnemonic: case
    for case in reversed(SMOOTH)
    if is_single(case) and case.op.mnemonic not in WITHOUT_GRADIENT
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ONE_EACH.values(), ids=str)
def test_machine_code_computes_the_gradient(case: Case) -> None:
    f = Function("main")
    operands = [None if t is None else f.input(f"x{i}", t) for i, t in enumerate(case.types)]
    for index, value in enumerate(Builder(f).emit_all(case.op, *operands)):
        f.output(f"y{index}", value)
    with_gradients(f)
    inputs = [x for x in case.inputs() if x is not None]
    wanted = run_function(f, inputs)
    feed = {x.name: array for x, array in zip(f.inputs, inputs, strict=True)}
    for have, want in zip(afterglow.compile(f.module).run(None, feed), wanted, strict=True):
        scale = float(np.abs(want).max(initial=1e-3))
        np.testing.assert_allclose(have, want, rtol=1e-3, atol=1e-4 * scale)
