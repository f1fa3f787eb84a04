"""What a model declares about its inputs and outputs, and what bindings make of it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from afterglow.frontends.onnx import Binding, import_onnx, model_signature, read_model
from afterglow.graph import run_function
from tests.frontends.models import FLOAT, graph, info, model, node, tensor


def declared(source: onnx.ModelProto) -> tuple[list[str], list[str]]:
    signature = model_signature(read_model(source).definition)
    return list(map(str, signature.inputs)), list(map(str, signature.outputs))


def test_shapes_may_be_free_named_or_unknown() -> None:
    inputs = [info("a", ("batch", 3, None)), info("b", ()), info("c", None), info("d", (0, -1))]
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    outputs = [info("y", None), onnx.ValueInfoProto(name="z"), sequence]
    made = model([node("Relu", ["a"], ["y"])], inputs=inputs, outputs=outputs)
    assert declared(made) == (
        ["'a': f32[batch, 3, ?]", "'b': f32[]", "'c': f32[…]", "'d': f32[0, ?]"],
        ["'y': f32[…]", "'z': ?[…]", "'s': sequence"],
    )


def test_a_question_mark_is_no_name() -> None:
    made = model([node("Relu", ["x"], ["y"])], inputs=[info("x", ("?", 3, "?"))])
    module = import_onnx(made, Binding(shapes={"x": (1, 3, 4)}))
    assert [str(v.type) for v in module.main.inputs] == ["f32[1, 3, 4]"]


def test_an_input_with_an_initializer_is_none() -> None:
    """So wrote every exporter before version 4 of the format."""
    main = graph([node("Add", ["x", "w"], ["y"])], ["x", info("w", (3,))])
    main.initializer.append(tensor("w", np.ones(3, np.float32)))
    made = model(main)
    assert declared(made)[0] == ["'x': f32[2, 3]"]
    assert [v.name for v in import_onnx(made).main.inputs] == ["x"]


def free() -> onnx.ModelProto:
    inputs = [info("x", ("batch", 3)), info("mask", ("batch", "length"))]
    outputs = [info("y", None), info("z", None)]
    nodes = [node("Relu", ["x"], ["y"]), node("Relu", ["mask"], ["z"])]
    return model(nodes, inputs=inputs, outputs=outputs)


def test_dimensions_are_bound_by_name() -> None:
    main = import_onnx(free(), Binding(dims={"batch": 4, "length": 7})).main
    assert [v.type.shape for v in main.inputs] == [(4, 3), (4, 7)]


def test_a_shape_binds_the_dimensions_that_it_has() -> None:
    binding = Binding(shapes={"x": (4, 3)}, dims={"length": 0})
    main = import_onnx(free(), binding).main
    assert [v.type.shape for v in main.inputs] == [(4, 3), (4, 0)]


def test_a_value_binds_too_and_is_no_input() -> None:
    values = {"x": np.full((2, 3), -1, np.float32)}
    main = import_onnx(free(), Binding(values=values, dims={"length": 5})).main
    assert [(v.name, v.type.shape) for v in main.inputs] == [("mask", (2, 5))]
    y, _ = run_function(main, [np.ones((2, 5), np.float32)])
    assert y.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_a_sequence_is_bound_by_a_list() -> None:
    sequence = helper.make_tensor_sequence_value_info("x", FLOAT, None)
    last = node("SequenceAt", ["x", "i"], ["y"])
    made = model([last], inputs=[sequence], constants={"i": np.array(-1)})
    values = {"x": [np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)]}
    (y,) = run_function(import_onnx(made, Binding(values=values)).main, [])
    assert y.tolist() == [[1, 1, 1], [1, 1, 1]]
