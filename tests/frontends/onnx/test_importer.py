"""Importing whole graphs: order, names, constants, and problems that are none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from afterglow.frontends.onnx import Binding, NeedsValuesError, import_onnx
from afterglow.graph import print_function, run_function, verify_module
from afterglow.graph.function import Function
from tests.effort import is_linear
from tests.frontends.models import INT64, graph, info, model, node, tensor

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def imported(source: onnx.ModelProto, binding: Binding | None = None) -> Function:
    module = import_onnx(source, binding)
    verify_module(module)
    return module.main


def test_nodes_keep_their_names_and_their_origin() -> None:
    main = imported(model([node("Relu", ["x"], ["y"], name="Relu_12")]))
    assert print_function(main, origins=True) == (
        'func @main(%x: f32[2, 3]) {\n  %y = relu(%x) : f32[2, 3] from "Relu_12"\n  return %y\n}'
    )


def test_nodes_are_sorted_if_the_file_does_not() -> None:
    nodes = [node("Neg", ["b"], ["y"]), node("Exp", ["x"], ["a"]), node("Relu", ["a"], ["b"])]
    main = imported(model(nodes))
    assert [n.op.mnemonic for n in main.nodes] == ["exp", "relu", "neg"]


def test_an_output_may_be_an_input_or_a_constant() -> None:
    main = imported(
        model([], outputs=["x", info("w", (1,))], constants={"w": np.ones(1, np.float32)})
    )
    x, w = run_function(main, [X])
    assert x is X
    assert w.tolist() == [1]


def test_constants_that_no_one_reads_are_dropped() -> None:
    constants = {"w": np.ones(3, np.float32), "unused": np.ones(3, np.float32)}
    module = import_onnx(model([node("Add", ["x", "w"], ["y"])], constants=constants))
    assert [*module.constants] == ["w"]


def test_shape_arithmetic_folds_away() -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["columns"]),
        node("Mul", ["columns", "two"], ["half"]),
        node("Unsqueeze", ["half", "zero"], ["target"]),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "one": np.array(1), "two": np.array(2)}
    module = import_onnx(model(nodes, outputs=[info("y", (6,))], constants=constants))
    assert [n.op.mnemonic for n in module.main.nodes] == ["reshape"]
    assert not module.constants


def test_equal_initializers_may_share_a_name() -> None:
    main = graph([node("Add", ["x", "w"], ["y"])], constants={"w": np.ones(3, np.float32)})
    main.initializer.append(tensor("w", np.ones(3, np.float32)))
    assert [*import_onnx(model(main)).constants] == ["w"]


def test_what_decides_a_shape_is_asked_for_by_name() -> None:
    inputs = ["x", info("shape", (2,), INT64), info("more", (2,), INT64)]
    nodes = [node("Add", ["shape", "more"], ["sum"]), node("Reshape", ["x", "sum"], ["y"])]
    made = model(nodes, inputs=inputs, outputs=[info("y", None)])
    with pytest.raises(NeedsValuesError) as caught:
        import_onnx(made)
    assert caught.value.inputs == ("shape", "more")
    values = {"shape": np.array([3, 1]), "more": np.array([0, 1])}
    main = imported(made, Binding(values=values))
    (y,) = run_function(main, [X])
    np.testing.assert_array_equal(y, X.reshape(3, 2))


@pytest.mark.parametrize("opset", [1, 6, onnx.defs.onnx_opset_version(), 999])
def test_versions_older_and_newer_than_known_are_tried(opset: int) -> None:
    (y,) = run_function(imported(model([node("Relu", ["x"], ["y"])], opset=opset)), [X])
    np.testing.assert_array_equal(y, np.maximum(X, 0))


def test_the_standard_domain_has_two_names() -> None:
    made = model([node("Relu", ["x"], ["y"], domain="ai.onnx")])
    made.opset_import[0].domain = "ai.onnx"
    assert [n.op.mnemonic for n in imported(made).nodes] == ["relu"]


def test_long_chains_import_in_linear_time() -> None:
    def importing(count: int) -> Callable[[], object]:
        nodes = [node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
        made = model(nodes, inputs=[info("v0")], outputs=[info(f"v{count}")])
        return lambda: import_onnx(made)

    assert is_linear(importing, 1000)
