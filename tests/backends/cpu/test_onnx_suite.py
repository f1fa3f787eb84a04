"""ONNX's backend suite on the CPU: whatever the interpreter passes, native code passes."""

from __future__ import annotations

import pytest

from afterglow import onnx_backend
from benchmarks import onnx_cases
from tests.backends.interpreter.test_onnx_suite import parameters


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", parameters())
def test_case(name: str) -> None:
    case = onnx_cases.load(name)
    model = onnx_backend.prepare(case.model, "CPU")
    for inputs, outputs in case.data_sets:
        for want, got in zip(outputs, model.run(inputs), strict=True):
            onnx_cases.agree(want, got, case.rtol, case.atol)
