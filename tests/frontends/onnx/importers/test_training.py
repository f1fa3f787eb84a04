"""ONNX's losses and optimizers become the ops that training emits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import afterglow as ag
from afterglow.support.errors import ModelError

FLOAT, INT = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
PREVIEW = "ai.onnx.preview.training"


def model(node: onnx.NodeProto, **inputs: tuple[int, tuple[int, ...]]) -> onnx.ModelProto:
    """A model of one node, all of whose outputs are returned."""
    given = [helper.make_tensor_value_info(name, *type) for name, type in inputs.items()]
    made = [helper.make_tensor_value_info(name, FLOAT, None) for name in node.output]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(PREVIEW, 1)]
    graph = helper.make_graph([node], "g", given, made)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def ops_of(proto: onnx.ModelProto) -> list[str]:
    return [node.op.mnemonic for node in ag.import_model(proto).main.nodes]


SCORES = {"x": (FLOAT, (4, 3)), "labels": (INT, (4,))}
STATE = {"r": (FLOAT, ()), "t": (INT, ()), "x": (FLOAT, (2,)), "g": (FLOAT, (2,))}


def test_the_loss_of_logits_gives_log_probabilities_too() -> None:
    node = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "labels"], ["loss", "logs"])
    assert ops_of(model(node, **SCORES)) == ["cross_entropy"]


def test_the_loss_of_log_probabilities() -> None:
    node = helper.make_node("NegativeLogLikelihoodLoss", ["x", "labels"], ["loss"])
    assert ops_of(model(node, **SCORES)) == ["nll"]


def test_momentum_without_any_still_returns_what_it_keeps() -> None:
    attributes = {"alpha": 0.0, "beta": 0.5, "norm_coefficient": 0.0, "mode": "standard"}
    names = ["r", "t", "x", "g", "v"]
    node = helper.make_node("Momentum", names, ["x2", "v2"], domain=PREVIEW, **attributes)
    proto = model(node, **STATE, v=(FLOAT, (2,)))
    assert ops_of(proto) == ["add", "sgd"]
    x, g, v = (np.array(pair, np.float32) for pair in ([1, 2], [4, -2], [7, 7]))
    run = ag.compile(proto, backend="interpreter")
    for count, share in ((0, 1.0), (3, 0.5)):
        moved, kept = run(np.float32(0.1), np.int64(count), x, g, v)
        np.testing.assert_allclose(kept, share * g)
        np.testing.assert_allclose(moved, x - np.float32(0.1) * kept)


def test_a_tensor_without_its_state_is_refused() -> None:
    names = ["r", "t", "x", "g"]
    node = helper.make_node("Adagrad", names, ["x2", "h2"], domain=PREVIEW)
    with pytest.raises(ModelError, match="it takes 3 values for each tensor, and has 2 in all"):
        ag.import_model(model(node, **STATE))
