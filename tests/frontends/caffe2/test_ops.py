"""Every operator of Caffe2 computes what its ONNX twin computes, or what NumPy says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow.frontends.caffe2.importers import CAFFE2
from tests.frontends.caffe2.cases import CASES, Case, run_onnx
from tests.frontends.caffe2.nets import Net, Op, fill


def is_input(operand: np.ndarray) -> bool:
    return operand.dtype == np.float32 and operand.size > 0


@pytest.fixture(scope="module")
def computed() -> dict[str, np.ndarray]:
    """What each operator computes, all of them in one net."""
    fills, ops, feed = [], [], {}
    for index, each in enumerate(CASES):
        names = [f"{index}.{number}" for number in range(len(each.operands))]
        for number, (name, operand) in enumerate(zip(names, each.operands, strict=True)):
            if number == 0 and is_input(operand):
                feed[name] = operand
            else:
                fills.append(fill(name, operand))
        outputs = [f"y{index}", "rest"] if each.type == "Split" else [f"y{index}"]
        ops.append(Op(each.type, names, outputs, each.args))
    predict = Net(ops, [*feed], [f"y{index}" for index in range(len(CASES))])
    pair = Net(fills).binary(), predict.binary()
    model = ag.compile(
        pair,
        backend="interpreter",
        optimize=False,
        cache=False,
        shapes={name: array.shape for name, array in feed.items()},
    )
    return dict(zip(predict.external_output, model.run(None, feed), strict=True))


def expected_of(each: Case) -> Any:
    if callable(each.expected):
        return each.expected(*each.operands)
    name, attributes = each.expected if isinstance(each.expected, tuple) else (each.expected, {})
    return run_onnx(name, [*each.operands, *(each.twins or ())], **attributes)


@pytest.mark.parametrize("index", range(len(CASES)), ids=lambda i: f"{CASES[i].type}-{i}")
def test_an_operator_computes_what_its_twin_does(index: int, computed: Any) -> None:
    expected, found = expected_of(CASES[index]), computed[f"y{index}"]
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def test_every_operator_has_a_case() -> None:
    known = {op_type for _, op_type in CAFFE2.importers if not op_type.startswith("Int8")}
    assert known - {each.type for each in CASES} == {"Free"}
