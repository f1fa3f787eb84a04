"""Control flow where versions of ONNX differ."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from afterglow.types import Array
from tests.frontends.onnx.one_node import compare, one_graph, reference

node = helper.make_node
X = np.random.default_rng(5).uniform(-2, 2, (2, 3, 4)).astype(np.float32)
SHAPE = (2, 3, 4)


def info(name: str, shape: tuple[int, ...] = SHAPE, type: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, type, shape)


def summing(shape: tuple[int, ...]) -> onnx.GraphProto:
    """The body of a scan: add to the state, and return it as an element too."""
    nodes = [node("Add", ["state", "element"], ["sum"]), node("Identity", ["sum"], ["copy"])]
    inputs = [info("state", shape), info("element", shape)]
    return helper.make_graph(nodes, "body", inputs, [info("sum", shape), info("copy", shape)])


def check(version: int, one: onnx.NodeProto, feed: dict[str, Array], **constants: Array) -> None:
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    model = one_graph([one], feed, list(one.output), tensors, version)
    compare(model, feed, reference(model, feed))


@pytest.mark.parametrize("direction", [0, 1])
def test_the_first_scan_has_a_batch(direction: int) -> None:
    scan = {"body": summing((4,)), "num_scan_inputs": 1, "directions": [direction]}
    feed = {"start": np.ones((2, 4), np.float32), "x": X}
    check(8, node("Scan", ["", "start", "x"], ["last", "all"], **scan), feed)


@pytest.mark.parametrize("fixed", [True, False])
def test_the_first_scan_may_have_sequences_of_different_lengths(fixed: bool) -> None:
    scan = {"body": summing((4,)), "num_scan_inputs": 1}
    feed = {"start": np.ones((2, 4), np.float32), "x": X, "lengths": np.array([3, 1])}
    constants = {"lengths": feed.pop("lengths")} if fixed else {}
    one = node("Scan", ["lengths", "start", "x"], ["last", "all"], **scan)
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    sums = 1 + X.cumsum(1)
    sums[1, 1:] = 0
    model = one_graph([one], feed, ["last", "all"], tensors, 8)
    compare(model, feed, [np.stack([sums[0, 2], sums[1, 0]]), sums])


@pytest.mark.parametrize("version", [9, 11, 16, 21])
@pytest.mark.parametrize("axis", [0, 2])
def test_later_scans_choose_axes_and_directions(version: int, axis: int) -> None:
    shape = SHAPE[:axis] + SHAPE[axis + 1 :]
    scan = {
        "body": summing(shape),
        "num_scan_inputs": 1,
        "scan_input_axes": [axis],
        "scan_input_directions": [1],
        "scan_output_axes": [1],
        "scan_output_directions": [1],
    }
    feed = {"start": np.ones(shape, np.float32), "x": X}
    check(version, node("Scan", ["start", "x"], ["last", "all"], **scan), feed)


@pytest.mark.parametrize("version", [7, 11, 13, 16, 21])
def test_loops(version: int) -> None:
    nodes = [
        node("Add", ["total", "x"], ["sum"]),
        node("Identity", ["go"], ["again"]),
        node("Identity", ["sum"], ["copy"]),
    ]
    inputs = [info("i", (), TensorProto.INT64), info("go", (), TensorProto.BOOL), info("total")]
    outputs = [info("again", (), TensorProto.BOOL), info("sum"), info("copy")]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    loop = node("Loop", ["three", "", "x"], ["last", "all"], body=body)
    check(version, loop, {"x": X}, three=np.array(3, np.int64))


@pytest.mark.parametrize("version", [7, 11, 13, 16, 21])
@pytest.mark.parametrize("condition", [True, False])
def test_conditions(version: int, condition: bool) -> None:
    branches = {
        f"{name}_branch": helper.make_graph([node(op, ["x"], [name])], name, [], [info(name)])
        for name, op in (("then", "Neg"), ("else", "Abs"))
    }
    feed = {"condition": np.array(condition), "x": X}
    check(version, node("If", ["condition"], ["y"], **branches), feed)
