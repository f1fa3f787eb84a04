from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.batches import NoBatchError, rebatched, write_rebatched
from benchmarks.run import DEMO

DIGITS = DEMO / "digits.onnx"


def model(nodes, shape, out, **weights):
    made = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, out)
    graph = helper.make_graph(nodes, "g", [x], [y], made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def shape_of(value):
    return [dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_several_items_are_computed_as_each_by_itself(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    path = write_rebatched(DIGITS, 3, tmp_path)
    together, alone = (runtime.InferenceSession(str(p)) for p in (path, DIGITS))
    images = np.random.default_rng(0).uniform(0, 16, (3, 1, 8, 8)).astype(np.float32)
    (found,) = together.run(None, {"image": images})
    wanted = [alone.run(None, {"image": image[None]})[0][0] for image in images]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_shapes_that_begin_with_one_follow():
    reshape = helper.make_node("Reshape", ["x", "to"], ["y"])
    made = rebatched(model([reshape], [1, 4, 3], [1, 12], to=[1, 12]), 5)
    assert shape_of(made.graph.input[0]) == [5, 4, 3]
    assert shape_of(made.graph.output[0]) == [5, 12]


def test_an_input_without_an_axis_of_items():
    relu = helper.make_node("Relu", ["x"], ["y"])
    with pytest.raises(NoBatchError, match="input 'x' has no axis of items"):
        rebatched(model([relu], [4, 3], [4, 3]), 2)


def test_an_output_without_an_axis_of_items():
    turn = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    with pytest.raises(NoBatchError, match="output 'y' has no axis of items"):
        rebatched(model([turn], [1, 3], [3, 1]), 2)


def test_nodes_that_cannot_take_several_items():
    join = helper.make_node("Concat", ["x", "more"], ["y"], axis=1)
    with pytest.raises(NoBatchError, match="cannot compute 2 items at once"):
        rebatched(model([join], [1, 4], [1, 6], more=np.ones((1, 2), np.float32)), 2)


def test_the_model_given_is_left_alone():
    before = onnx.load(DIGITS)
    copy = onnx.load(DIGITS)
    rebatched(copy, 4)
    assert copy == before
