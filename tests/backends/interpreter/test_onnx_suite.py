"""ONNX's backend suite on the interpreter: expected outputs, optimised and not."""

from __future__ import annotations

import pytest

from afterglow import onnx_backend
from benchmarks import onnx_cases

GAPS = onnx_cases.gaps()
"""Strict, so that a test fails when one is mended."""


def parameters() -> list[object]:
    return [
        pytest.param(name, marks=pytest.mark.xfail(reason=GAPS[name], strict=True))
        if name in GAPS
        else name
        for name in onnx_cases.names()
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", parameters())
def test_case(name: str) -> None:
    case = onnx_cases.load(name)
    optimised = onnx_backend.prepare(case.model, "INTERPRETER", verify=True)
    literal = onnx_backend.prepare(case.model, "INTERPRETER", optimize=False)
    for inputs, outputs in case.data_sets:
        for want, got in zip(outputs, optimised.run(inputs), strict=True):
            onnx_cases.agree(want, got, case.rtol, case.atol)
        for got, plain in zip(optimised.run(inputs), literal.run(inputs), strict=True):
            onnx_cases.agree(plain, got, 1e-3, 1e-5)


def test_every_gap_is_a_case() -> None:
    assert not GAPS.keys() - set(onnx_cases.names())
