"""A small language model as exporters write it: packed weights, groups of queries, a cache."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import afterglow
from afterglow.types import Array

WORDS, WIDTH, HEADS, SHARED, HEAD, INNER, BLOCK, LAYERS, PLACES = 50, 64, 4, 2, 16, 96, 32, 2, 16
MICROSOFT = "com.microsoft"
rng = np.random.default_rng(3)


class Writer:
    """Collects the nodes and constants of a model."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, array: Array) -> str:
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op: str, inputs: list[str], *outputs: str, ours: bool = True, **options: object):
        domain = MICROSOFT if ours else ""
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **options))
        return outputs[0]

    def linear(self, name: str, x: str, inputs: int, outputs: int) -> str:
        blocks = inputs // BLOCK
        weight = rng.integers(0, 256, (outputs, blocks, BLOCK // 2)).astype(np.uint8)
        scales = (rng.uniform(0.5, 1, outputs * blocks) / 40).astype(np.float32)
        parts = [self.constant(f"{name}.w", weight), self.constant(f"{name}.s", scales)]
        options = {"K": inputs, "N": outputs, "bits": 4, "block_size": BLOCK}
        return self.node("MatMulNBits", [x, *parts], f"{name}.y", **options)

    def layer(self, i: int, x: str, skip: str | None, lengths: list[str]) -> tuple[str, str]:
        scale = self.constant(f"{i}.norm", rng.uniform(0.5, 1, WIDTH).astype(np.float32))
        if skip is None:
            h = self.node("SimplifiedLayerNormalization", [x, scale], f"{i}.h", ours=False)
            total = x
        else:
            outputs = (f"{i}.h", "", "", f"{i}.sum")
            h = self.node("SkipSimplifiedLayerNormalization", [x, skip, scale], *outputs)
            total = outputs[3]
        packed = self.linear(f"{i}.qkv", h, WIDTH, (HEADS + 2 * SHARED) * HEAD)
        past = [packed, "", "", f"past.{i}.k", f"past.{i}.v", *lengths, "cos", "sin"]
        options = {"num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": 1}
        results = (f"{i}.a", f"present.{i}.k", f"present.{i}.v")
        a = self.linear(
            f"{i}.o", self.node("GroupQueryAttention", past, *results, **options), 64, WIDTH
        )
        scale = self.constant(f"{i}.norm2", rng.uniform(0.5, 1, WIDTH).astype(np.float32))
        outputs = (f"{i}.h2", "", "", f"{i}.sum2")
        h = self.node("SkipSimplifiedLayerNormalization", [total, a, scale], *outputs)
        gate, up = (self.linear(f"{i}.{name}", h, WIDTH, INNER) for name in ("gate", "up"))
        active = self.node("QuickGelu", [gate], f"{i}.g", alpha=1.0)
        product = self.node("Mul", [active, up], f"{i}.p", ours=False)
        return self.linear(f"{i}.down", product, INNER, WIDTH), outputs[3]


def language_model() -> onnx.ModelProto:
    w = Writer()
    angles = np.outer(np.arange(PLACES), 0.5 ** np.arange(HEAD // 2))
    w.constant("cos", np.cos(angles).astype(np.float32))
    w.constant("sin", np.sin(angles).astype(np.float32))
    w.constant("one", np.array([1]))
    w.node("ReduceSum", ["mask", "one"], "count", ours=False, keepdims=0)
    w.node("Sub", ["count", "one"], "last", ours=False)
    w.node("Cast", ["last"], "last32", ours=False, to=TensorProto.INT32)
    w.node("Shape", ["mask"], "shape", ours=False, start=1, end=2)
    w.node("Cast", ["shape"], "total", ours=False, to=TensorProto.INT32)
    w.node("Squeeze", ["total"], "total32", ours=False)
    table = [
        w.constant("table", rng.integers(0, 256, (WORDS, WIDTH // 2)).astype(np.uint8)),
        "words",
        w.constant("scales", (rng.uniform(1, 2, (WORDS, WIDTH // BLOCK)) / 8).astype(np.float32)),
    ]
    x, skip = w.node("GatherBlockQuantized", table, "x", block_size=BLOCK, bits=4), None
    for i in range(LAYERS):
        x, skip = w.layer(i, x, skip, ["last32", "total32"])
    w.node("Add", [x, skip], "final", ours=False)
    w.linear("logits", "final", WIDTH, WORDS)
    cache = ("batch", SHARED, "past", HEAD)
    info = helper.make_tensor_value_info
    sides = [f"{i}.{part}" for i in range(LAYERS) for part in "kv"]
    graph = helper.make_graph(
        w.nodes,
        "language",
        [
            info("words", TensorProto.INT64, ("batch", "length")),
            info("mask", TensorProto.INT64, ("batch", "total")),
            *(info(f"past.{side}", TensorProto.FLOAT, cache) for side in sides),
        ],
        [
            info("logits.y", TensorProto.FLOAT, ("batch", "length", WORDS)),
            *(info(f"present.{side}", TensorProto.FLOAT, None) for side in sides),
        ],
        w.constants,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def session_of(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


def feed_of(words: Array, mask: Array, cache: list[Array]) -> dict[str, Array]:
    sides = [f"past.{i}.{part}" for i in range(LAYERS) for part in "kv"]
    return {"words": words, "mask": mask, **dict(zip(sides, cache, strict=True))}


def test_a_prompt_and_tokens_behind_it() -> None:
    """The cache grows: each length is a version of its own."""
    proto = language_model()
    model, session = afterglow.compile(proto, cache=False), session_of(proto)
    words = np.array([[3, 14, 15, 9], [2, 7, 18, 28]])
    cache = [np.zeros((2, SHARED, 0, HEAD), np.float32)] * (2 * LAYERS)
    for length in (4, 5):
        feed = feed_of(words, np.ones((2, length), np.int64), cache)
        got, want = model.run(None, feed), session.run(None, feed)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-2, atol=2e-2)
        words, cache = got[0][:, -1:].argmax(-1), got[1:]


def test_a_cache_of_fixed_size_needs_one_version() -> None:
    """The mask says how far the cache is filled: no shape changes from token to token."""
    proto = language_model()
    model, session = afterglow.compile(proto, cache=False), session_of(proto)
    cache = [np.zeros((1, SHARED, PLACES, HEAD), np.float32)] * (2 * LAYERS)
    words = np.array([[3]])
    for filled in range(1, 6):
        mask = (np.arange(PLACES) < filled).astype(np.int64)[None]
        feed = feed_of(words, mask, cache)
        got, want = model.run(None, feed), session.run(None, feed)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-2, atol=2e-2)
        words, cache = got[0].argmax(-1), got[1:]
    assert len(model.versions()) == 1
