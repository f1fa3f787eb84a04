"""ONNX's optionals, which are there or not when importing."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from afterglow.frontends.onnx import Binding, NeedsValuesError, import_onnx
from afterglow.graph import run_function
from afterglow.support.errors import ModelError
from tests.frontends.models import BOOL, FLOAT, info, model, node

ONES = np.ones((2, 3), np.float32)


def optional_input() -> onnx.ValueInfoProto:
    element = helper.make_tensor_type_proto(FLOAT, (2, 3))
    return helper.make_value_info("x", helper.make_optional_type_proto(element))


def has_element() -> onnx.ModelProto:
    asks = node("OptionalHasElement", ["x"], ["y"])
    return model([asks], opset=18, inputs=[optional_input()], outputs=[info("y", (), BOOL)])


@pytest.mark.parametrize("value", [None, ONES], ids=["empty", "full"])
def test_an_optional_input_is_bound_when_importing(value: np.ndarray | None) -> None:
    with pytest.raises(NeedsValuesError) as caught:
        import_onnx(has_element())
    assert caught.value.inputs == ("x",)
    (y,) = run_function(import_onnx(has_element(), Binding(values={"x": value})).main, [])
    assert bool(y) is (value is not None)


def test_an_optional_is_its_element() -> None:
    nodes = [node("Optional", ["x"], ["o"]), node("OptionalGetElement", ["o"], ["y"])]
    main = import_onnx(model(nodes, opset=18)).main
    assert main.outputs[0].value is main.inputs[0]


def test_an_empty_optional_has_no_element() -> None:
    nodes = [node("Optional", [], ["o"]), node("OptionalGetElement", ["o"], ["y"], name="get")]
    with pytest.raises(ModelError) as caught:
        import_onnx(model(nodes, opset=18))
    assert str(caught.value) == (
        "error: the optional has no element\n"
        "  in node 'get' (OptionalGetElement of ai.onnx version 18)"
    )
