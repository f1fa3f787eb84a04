"""Small networks, of every kind one; some have enough work for several threads."""

from __future__ import annotations

import numpy as np
import onnx

from tests.frontends.models import info, model, node

COUNTER = """
    state @count : f32[3]
    func @main(%x: f32[3]) {
      %y = abs(@count) : f32[3]
      %next = add(@count, %x) : f32[3]
      store %next to @count
      return %y
    }
"""
"""A module that counts its inputs up, and gives what was counted before."""

RANDOM = np.random.default_rng(5)


def weights(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def cnn() -> onnx.ModelProto:
    """Convolutions, pooling, a residual connection."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        node("Add", ["c2", "r1"], ["a"]),
        node("Relu", ["a"], ["r2"]),
        node("MaxPool", ["r2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["p"], ["y"]),
    ]
    constants = {"w1": weights(32, 3, 3, 3), "b1": weights(32), "w2": weights(32, 32, 3, 3)}
    return model(
        nodes,
        inputs=[info("x", (1, 3, 33, 31))],
        outputs=[info("y", (1, 32, 1, 1))],
        constants=constants,
    )


def mlp() -> onnx.ModelProto:
    """Three layers."""
    nodes = [
        node("Gemm", ["x", "w1", "b1"], ["h1"]),
        node("Relu", ["h1"], ["r1"]),
        node("Gemm", ["r1", "w2"], ["h2"]),
        node("Tanh", ["h2"], ["r2"]),
        node("MatMul", ["r2", "w3"], ["y"]),
    ]
    constants = {
        "w1": weights(100, 300),
        "b1": weights(300),
        "w2": weights(300, 300),
        "w3": weights(300, 11),
    }
    return model(
        nodes,
        inputs=[info("x", (33, 100))],
        outputs=[info("y", (33, 11))],
        constants=constants,
    )


def transformer() -> onnx.ModelProto:
    """One head of attention over 65 tokens, and what follows it."""
    nodes = [
        node("MatMul", ["x", "wq"], ["q"]),
        node("MatMul", ["x", "wk"], ["k"]),
        node("MatMul", ["x", "wv"], ["v"]),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["o"]),
        node("Add", ["o", "x"], ["r"]),
        node("LayerNormalization", ["r", "scale", "shift"], ["n"], axis=-1),
        node("MatMul", ["n", "w1"], ["h"]),
        node("Sigmoid", ["h"], ["g"]),
        node("MatMul", ["g", "w2"], ["m"]),
        node("Add", ["m", "n"], ["y"]),
    ]
    constants = {name: weights(96, 96) for name in ("wq", "wk", "wv")}
    constants |= {"w1": weights(96, 200), "w2": weights(200, 96)}
    constants |= {"scale": np.ones(96, np.float32), "shift": np.zeros(96, np.float32)}
    shape = (2, 65, 96)
    return model(nodes, inputs=[info("x", shape)], outputs=[info("y", shape)], constants=constants)


def tiny() -> onnx.ModelProto:
    """y = relu(x): f32[2, 3]."""
    return model([node("Relu", ["x"], ["y"])])


def texts() -> onnx.ModelProto:
    """Numbers, then texts that the host joins, then numbers again."""
    text = onnx.TensorProto.STRING
    nodes = [
        node("Add", ["x", "x"], ["twice"]),
        node("StringConcat", ["first", "second"], ["both"]),
        node("StringConcat", ["both", "end"], ["joined"]),
        node("Mul", ["twice", "x"], ["y"]),
    ]
    return model(
        nodes,
        opset=20,
        inputs=["x", info("first", (2,), text), info("second", (2,), text)],
        outputs=["y", info("joined", (2,), text)],
        constants={"end": np.array(["!"], object)},
    )


def trees() -> onnx.ModelProto:
    """A forest of one tree between two element-wise steps."""
    forest = node(
        "TreeEnsembleRegressor",
        ["twice"],
        ["leaf"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[1, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[3.0, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        nodes_missing_value_tracks_true=[0, 0, 0],
        nodes_hitrates=[1.0, 1.0, 1.0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[10.0, 20.0],
    )
    nodes = [node("Add", ["x", "x"], ["twice"]), forest, node("Neg", ["leaf"], ["y"])]
    return model(nodes, domains={"ai.onnx.ml": 3}, outputs=[info("y", (2, 1))])


def choice_of_texts() -> onnx.ModelProto:
    """Texts, twice or once: no machine code is made for either."""
    twice = onnx.helper.make_graph(
        [node("StringConcat", ["a", "a"], ["r"])], "twice", [], [onnx.ValueInfoProto(name="r")]
    )
    once = onnx.helper.make_graph(
        [node("Identity", ["a"], ["q"])], "once", [], [onnx.ValueInfoProto(name="q")]
    )
    return model(
        [node("If", ["c"], ["b"], then_branch=twice, else_branch=once)],
        inputs=[info("c", (), onnx.TensorProto.BOOL), info("a", (2,), onnx.TensorProto.STRING)],
        outputs=[info("b", (2,), onnx.TensorProto.STRING)],
        opset=20,
    )


def loop() -> onnx.ModelProto:
    """Adds x to itself as often as n says."""
    body = onnx.helper.make_graph(
        [node("Add", ["total", "x"], ["next"]), node("Identity", ["go"], ["still"])],
        "body",
        [
            info("i", (), onnx.TensorProto.INT64),
            info("go", (), onnx.TensorProto.BOOL),
            info("total", (2, 3)),
        ],
        [info("still", (), onnx.TensorProto.BOOL), info("next", (2, 3))],
    )
    nodes = [
        node("Abs", ["x"], ["start"]),
        node("Loop", ["n", "", "start"], ["sum"], body=body),
        node("Neg", ["sum"], ["y"]),
    ]
    return model(nodes, inputs=["x", info("n", (), onnx.TensorProto.INT64)])
