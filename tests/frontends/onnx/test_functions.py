"""Functions of the model, and functions that the standard gives for its ops."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, parser
from onnx.reference import ReferenceEvaluator
from onnxruntime import InferenceSession

from afterglow.frontends.onnx import import_onnx
from afterglow.frontends.onnx import schema as schemas
from afterglow.frontends.onnx.registry import ONNX
from afterglow.graph import print_function, run_function, verify_module
from afterglow.graph.function import Function
from afterglow.types import Array
from tests.frontends.models import info, model, node

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def imported(text: str) -> tuple[Function, onnx.ModelProto]:
    """A model in ONNX's own syntax."""
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["": 17, "local": 1]>\n{text}')
    module = import_onnx(made)
    verify_module(module)
    return module.main, made


def check(text: str, *inputs: Array) -> Function:
    """The model gives what ONNX Runtime gives."""
    main, made = imported(text)
    feed = {info.name: array for info, array in zip(made.graph.input, inputs, strict=True)}
    want = InferenceSession(made.SerializeToString()).run(None, feed)
    for got, expected in zip(run_function(main, inputs), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    return main


SCALED = """
<domain: "local", opset_import: ["": 17]>
Scaled <factor: float = 2.0, axis> (x) => (y) {
    f = Constant <value_float: float = @factor> ()
    scaled = Mul (x, f)
    y = Softmax <axis: int = @axis> (scaled)
}
"""


def test_attributes_are_given_or_have_defaults() -> None:
    check(
        """
        main (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) {
            y = local.Scaled (x)
            z = local.Scaled <factor = 0.5, axis = 0> (x)
        }
        """
        + SCALED,
        X,
    )


def test_names_tell_the_call_and_origins_the_node() -> None:
    main, _ = imported(
        """
        main (float[2, 3] x) => (float[2, 3] y) {
            [call] y = local.Scaled (x)
        }
        """
        + SCALED
    )
    assert print_function(main, origins=True) == (
        "func @main(%x: f32[2, 3]) {\n"
        '  %y.scaled = mul(%x, @y.f) : f32[2, 3] from "call"\n'
        '  %y = softmax(%y.scaled) {axis = -1} : f32[2, 3] from "call"\n'
        "  return %y\n"
        "}"
    )


def test_functions_call_functions_and_pass_their_attributes_on() -> None:
    check(
        """
        main (float[2, 3] x) => (float[2, 3] y) {
            y = local.Twice <by = 3.0> (x)
        }
        <domain: "local", opset_import: ["": 17, "local": 1]>
        Twice <by> (x) => (y) {
            a = local.Scaled <factor: float = @by> (x)
            y = local.Scaled <factor: float = @by> (a)
        }
        """
        + SCALED,
        X,
    )


def test_a_function_has_its_own_versions_and_names() -> None:
    """Squeeze takes its axes as an attribute up to version 12; `y` means something else inside."""
    main, _ = imported(
        """
        main (float[2, 1, 3] x) => (float[2, 3] y) {
            y = local.Flat (x)
        }
        <domain: "local", opset_import: ["": 11]>
        Flat (y) => (x) {
            t = Squeeze <axes = [1]> (y)
            x = Neg (t)
        }
        """
    )
    (y,) = run_function(main, [X.reshape(2, 1, 3)])
    np.testing.assert_array_equal(y, -X)


def test_inputs_and_outputs_may_be_left_out() -> None:
    main, _ = imported(
        """
        main (float[2, 3] x) => (float[2, 3] y) {
            y = local.Bounded (x)
        }
        <domain: "local", opset_import: ["": 17]>
        Bounded (x, low, high) => (y, unused) {
            a = Clip (x, low, high)
            unused = Neg (a)
            y = Relu (a)
        }
        """
    )
    (y,) = run_function(main, [X])
    np.testing.assert_array_equal(y, np.maximum(X, 0))


def test_attributes_reach_into_sub_graphs() -> None:
    main, _ = imported(
        """
        main (float[2, 3] x, bool c) => (float[2, 3] y) {
            y = local.Choose <axis = 0> (x, c)
        }
        <domain: "local", opset_import: ["": 17]>
        Choose <axis> (x, c) => (y) {
            y = If (c) <
                then_branch = g () => (t) { t = Softmax <axis: int = @axis> (x) },
                else_branch = g () => (e) { e = Neg (x) }
            >
        }
        """
    )
    (y,) = run_function(main, [X, np.array(True)])
    np.testing.assert_allclose(y.sum(0), [1, 1, 1], rtol=1e-6)


def test_the_models_own_function_comes_before_ours() -> None:
    odd = helper.make_function(
        "", "Relu", ["x"], ["y"], [node("Neg", ["x"], ["y"])], [helper.make_opsetid("", 17)]
    )
    main = import_onnx(model([node("Relu", ["x"], ["y"])], functions=[odd])).main
    assert [n.op.mnemonic for n in main.nodes] == ["neg"]


EXPANDED = {
    "HardSwish": (22, {}),
    "Celu": (28, {"alpha": 0.7}),
    "Selu": (22, {}),
    "Softplus": (22, {}),
    "Gelu": (20, {"approximate": "tanh"}),
    "MeanVarianceNormalization": (18, {"axes": [0, 1]}),
    "ReduceLogSumExp": (18, {"keepdims": 0}),
    "Softmax": (13, {"axis": 0}),
    "LayerNormalization": (17, {}),
}


@pytest.mark.parametrize(
    ("op_type", "version", "attributes"), [(k, *v) for k, v in EXPANDED.items()]
)
def test_functions_of_the_standard_stand_in_for_importers(
    op_type: str, version: int, attributes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(ONNX.importers, ("", op_type), raising=False)
    schema = schemas.find_schema("", op_type, version)
    operands = ["x", "w"][: schema.min_input]
    made = model(
        [node(op_type, operands, ["y"], **attributes)],
        opset=version,
        outputs=[info("y", None)],
        constants={"w": np.array([1, 2, 3], np.float32)},
    )
    module = import_onnx(made)
    verify_module(module)
    (got,) = run_function(module.main, [X])
    (want,) = ReferenceEvaluator(made).run(None, {"x": X})
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
