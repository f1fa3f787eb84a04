"""Laws that hold for every case of every op."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import OPS, Array, Builder, Function, run_function, run_op
from afterglow.graph.op import Op, result_types
from tests.ops.case import Case

FAMILIES = sorted(path.stem for path in Path(__file__).parent.glob("cases_*.py"))
CASES: list[Case] = [
    case for family in FAMILIES for case in importlib.import_module(f"tests.ops.{family}").CASES
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)


def evaluated(case: Case) -> tuple[Array, ...]:
    return run_op(case.op, case.inputs(), result_types(case.op.infer(*case.types)))


def assert_close(got: tuple[Array, ...], want: tuple[Array, ...], tolerance: float) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        assert g.dtype == w.dtype
        if w.dtype.kind in "biuO" or w.dtype.name.startswith(("int", "uint")):
            np.testing.assert_array_equal(g, w)
        else:
            wide = np.complex128 if w.dtype.kind == "c" else np.float64
            limit = tolerance if w.dtype.itemsize >= 4 else 1e-2
            np.testing.assert_allclose(g.astype(wide), w.astype(wide), rtol=limit, atol=limit)


def test_every_op_has_a_case() -> None:
    missing = {cls.mnemonic for cls in OPS.values()} - {case.op.mnemonic for case in CASES}
    assert not missing


@each_case
def test_inference_tells_what_evaluation_gives(case: Case) -> None:
    inputs = case.inputs()
    for array, type in zip(inputs, case.types, strict=True):
        assert (array is None) == (type is None)
        assert array is None or (array.shape, array.dtype) == (type.shape, type.dtype.numpy)
    for result, type in zip(evaluated(case), result_types(case.op.infer(*case.types)), strict=True):
        assert (result.shape, result.dtype) == (type.shape, type.dtype.numpy)


@each_case
def test_lowering_keeps_the_meaning(case: Case) -> None:
    if type(case.op).lower is Op.lower:
        pytest.skip("primitive")
    f = Function("main")
    operands = [None if t is None else f.input(f"x{i}", t) for i, t in enumerate(case.types)]
    lowered = case.op.lower(Builder(f), *operands)
    if lowered is None:
        pytest.skip("declines for these operands")
    for index, value in enumerate(lowered if isinstance(lowered, tuple) else (lowered,)):
        f.output(f"y{index}", value)
    got = run_function(f, [x for x in case.inputs() if x is not None])
    assert_close(got, evaluated(case), case.tolerance)
