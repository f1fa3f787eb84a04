"""Sequences of tensors, several nodes at a time."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto, helper, numpy_helper

from tests.frontends.onnx.one_node import compare, one_graph, reference

node = helper.make_node
X = np.random.default_rng(3).uniform(-2, 2, (2, 3, 4)).astype(np.float32)


def check_nodes(version: int, nodes: list[NodeProto], results: list[str], **constants: int) -> None:
    """Nodes that read x, y = 2 x, and constants."""
    feed = {"x": X, "y": 2 * X}
    tensors = [numpy_helper.from_array(np.array(c, np.int64), k) for k, c in constants.items()]
    model = one_graph(nodes, feed, results, tensors, version)
    compare(model, feed, reference(model, feed))


@pytest.mark.parametrize("version", [11, 13, 21])
def test_a_sequence_grows_and_shrinks(version: int) -> None:
    nodes = [
        node("SequenceConstruct", ["x", "x"], ["two"]),
        node("SequenceInsert", ["two", "y", "last"], ["three"]),
        node("SequenceErase", ["three"], ["rest"]),
        node("SequenceAt", ["rest", "last"], ["one"]),
        node("SequenceLength", ["rest"], ["length"]),
        node("ConcatFromSequence", ["rest"], ["joined"], axis=-1, new_axis=1),
    ]
    check_nodes(version, nodes, ["one", "length", "joined"], last=-1)


def test_an_empty_sequence_is_filled() -> None:
    nodes = [
        node("SequenceEmpty", [], ["none"]),
        node("SequenceInsert", ["none", "x"], ["one"]),
        node("SequenceInsert", ["one", "y", "first"], ["two"]),
        node("ConcatFromSequence", ["two"], ["joined"], axis=1),
        node("SequenceLength", ["none"], ["length"]),
    ]
    check_nodes(11, nodes, ["joined", "length"], first=0)


@pytest.mark.parametrize("version", [11, 24])
@pytest.mark.parametrize("length", [3, (1, 3), (2, 2)], ids=str)
def test_a_tensor_is_split_into_parts_of_given_lengths(version: int, length: object) -> None:
    nodes = [
        node("SplitToSequence", ["x", "length"], ["parts"], axis=2),
        node("SequenceAt", ["parts", "last"], ["one"]),
        node("ConcatFromSequence", ["parts"], ["joined"], axis=2),
    ]
    check_nodes(version, nodes, ["one", "joined"], length=length, last=-1)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_tensor_is_split_into_slices(keepdims: int) -> None:
    nodes = [
        node("SplitToSequence", ["x"], ["parts"], axis=1, keepdims=keepdims),
        node("SequenceAt", ["parts", "one"], ["slice"]),
    ]
    check_nodes(11, nodes, ["slice"], one=1)
