"""Encoders as exporters write them, from ONNX: every layer is recognised, numbers stay."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from afterglow.frontends.onnx import import_onnx
from afterglow.graph import Module, verify_module
from afterglow.transforms.fold_constants import FoldConstants
from afterglow.transforms.recognise_activations import RECOGNISE_ACTIVATIONS
from afterglow.transforms.recognise_attention import RECOGNISE_ATTENTION
from afterglow.transforms.recognise_norms import RECOGNISE_NORMS
from afterglow.transforms.recognise_softmax import RECOGNISE_SOFTMAX
from tests.transforms.rewriting import assert_same_meaning

LAYERS, HEADS, PLACES, WIDTH = 3, 4, 6, 16
SCALARS = {
    "one": 1.0,
    "half": 0.5,
    "two": 2.0,
    "three": 3.0,
    "eps": 1e-5,
    "root": np.sqrt(2),
    "head_root": np.sqrt(WIDTH // HEADS),
    "head_scale": (WIDTH // HEADS) ** -0.5,
    "cube": 0.044715,
    "bell": np.sqrt(2 / np.pi),
}

HEADS_OF = """
    {0}_m = MatMul(x, {0}_w)
    {0}_a = Add({0}_b, {0}_m)
    {0}_r = Reshape({0}_a, split)
"""
SCORES = """
    q = Transpose<perm = [0, 2, 1, 3]>(q_r)
    v = Transpose<perm = [0, 2, 1, 3]>(v_r)
"""
REST = """
    mixed = MatMul(weights, v)
    back = Transpose<perm = [0, 2, 1, 3]>(mixed)
    joined = Reshape(back, join)
    o_m = MatMul(joined, o_w)
    o_a = Add(o_b, o_m)
    after = Add(x, o_a)
"""

TORCH_ATTENTION = """
    t = Transpose<perm = [0, 2, 3, 1]>(k_r)
    scores = MatMul(q, t)
    scaled = Div(scores, head_root)
    weights = Softmax<axis = -1>(scaled)
"""
TORCH_NORM = """
    mean = ReduceMean<axes = [-1]>({0})
    centred = Sub({0}, mean)
    square = Pow(centred, two)
    variance = ReduceMean<axes = [-1]>(square)
    spread = Add(variance, eps)
    deviation = Sqrt(spread)
    normed = Div(centred, deviation)
    grown = Mul(normed, n_w)
    {1} = Add(grown, n_b)
"""
TORCH_GELU = """
    g_d = Div({0}, root)
    g_e = Erf(g_d)
    g_a = Add(g_e, one)
    g_m = Mul({0}, g_a)
    {1} = Mul(g_m, half)
"""
KERAS_ATTENTION = """
    qs = Mul(q, head_scale)
    t = Transpose<perm = [0, 2, 3, 1]>(k_r)
    scores = MatMul(qs, t)
    peak = ReduceMax<axes = [3]>(scores)
    less = Sub(scores, peak)
    exps = Exp(less)
    total = ReduceSum(exps, last)
    weights = Div(exps, total)
"""
KERAS_NORM = """
    mean = ReduceMean<axes = [2]>({0})
    centred = Sub({0}, mean)
    square = Mul(centred, centred)
    variance = ReduceMean<axes = [2]>(square)
    spread = Add(variance, eps)
    deviation = Sqrt(spread)
    inverse = Reciprocal(deviation)
    factor = Mul(inverse, n_w)
    grown = Mul({0}, factor)
    moved = Mul(mean, factor)
    shift = Sub(n_b, moved)
    {1} = Add(grown, shift)
"""
KERAS_GELU = """
    g_p = Pow({0}, three)
    g_c = Mul(cube, g_p)
    g_s = Add({0}, g_c)
    g_u = Mul(bell, g_s)
    g_t = Tanh(g_u)
    g_a = Add(one, g_t)
    g_m = Mul(half, g_a)
    {1} = Mul({0}, g_m)
"""
STYLES = {
    "torch": (TORCH_ATTENTION, TORCH_NORM, TORCH_GELU),
    "keras": (KERAS_ATTENTION, KERAS_NORM, KERAS_GELU),
}


def model(style: str) -> onnx.ModelProto:
    """An encoder of a few layers: attention, norm, GELU, norm."""
    attention, norm, gelu = STYLES[style]
    layer = "".join(HEADS_OF.format(name) for name in "qkv") + SCORES + attention + REST
    tail = gelu.format("y", "z")
    texts = [layer, norm.format("after", "y"), tail, norm.format("z", "out")]
    nodes = []
    for index in range(LAYERS):
        for part, text in enumerate(texts):
            nodes += [_node(line, index, part) for line in text.split("\n") if line.strip()]
    shape = [2, PLACES, WIDTH]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("x0", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"x{LAYERS}", onnx.TensorProto.FLOAT, shape)],
        _weights(),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def _node(line: str, layer: int, part: int) -> onnx.NodeProto:
    """One node, its values renamed for the layer; those of a norm also for which one it is."""
    node = onnx.parser.parse_node(line.strip())
    for names in (node.input, node.output):
        names[:] = [_name(name, layer, part) for name in names]
    return node


def _name(name: str, layer: int, part: int) -> str:
    if name in SCALARS or name in ("split", "join", "last"):
        return name
    if name in ("x", "out"):
        return f"x{layer + (name == 'out')}"
    if name in ("y", "z", "after") or name[-2:] in ("_w", "_b"):
        return f"{name}.{layer}"
    return f"{name}.{layer}.{part}"


def _weights() -> list[onnx.TensorProto]:
    rng = np.random.default_rng(0)
    arrays = {name: np.array(number, np.float32) for name, number in SCALARS.items()}
    arrays["split"] = np.array([2, PLACES, HEADS, WIDTH // HEADS], np.int64)
    arrays["join"] = np.array([2, PLACES, WIDTH], np.int64)
    arrays["last"] = np.array([3], np.int64)
    for layer in range(LAYERS):
        for name in "qkvo":
            arrays[f"{name}_w.{layer}"] = rng.standard_normal((WIDTH, WIDTH)) / 4
        for name in ("q_b", "k_b", "v_b", "o_b", "n_w", "n_b"):
            arrays[f"{name}.{layer}"] = rng.standard_normal(WIDTH)
    return [
        numpy_helper.from_array(a if a.dtype == np.int64 else a.astype(np.float32), name)
        for name, a in arrays.items()
    ]


def recognise(module: Module) -> None:
    """Run the passes in the order that the driver has them in."""
    for step in (
        FoldConstants(),
        RECOGNISE_ACTIVATIONS,
        RECOGNISE_SOFTMAX,
        RECOGNISE_NORMS,
        RECOGNISE_ATTENTION,
    ):
        step.run(module.main)
    verify_module(module)


@pytest.mark.parametrize("style", STYLES)
def test_every_layer_of_an_encoder_is_recognised(style: str) -> None:
    module = import_onnx(model(style))
    reference = module.clone()
    recognise(module)
    count = Counter(node.op.mnemonic for node in module.main.nodes)
    assert (count["attention"], count["layer_norm"], count["gelu"]) == (
        LAYERS,
        2 * LAYERS,
        LAYERS,
    )
    assert set(count) == {
        *("attention", "layer_norm", "gelu", "matmul", "add", "reshape", "transpose")
    }
    assert count["matmul"] == 4 * LAYERS
    assert_same_meaning(reference.main, module.main)
