"""A small Llama with random weights as ONNX, in the forms in which language models come."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from afterglow.types import Array

WORDS, WIDTH, HEADS, SHARED, HEAD, INNER, BLOCK, LAYERS = 50, 64, 4, 2, 16, 96, 32, 1
PLACES = 160
MICROSOFT = "com.microsoft"
INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT
SIDES = [f"{i}.{part}" for i in range(LAYERS) for part in ("key", "value")]


class LlamaWriter:
    """Collects nodes and constants; the methods write what all forms share."""

    def __init__(self, *, blocks: bool = False) -> None:
        self.random = np.random.default_rng(3)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.blocks = blocks

    def constant(self, name: str, array: Array) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op: str, inputs: list[str], *outputs: str, domain: str = "", **options: object):
        outputs = outputs or (f"{op}_{len(self.nodes)}",)
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **options))
        return outputs[0]

    def linear(self, name: str, x: str, inputs: int, outputs: int) -> str:
        if not self.blocks:
            weight = self.random.standard_normal((inputs, outputs)) / math.sqrt(inputs)
            return self.node("MatMul", [x, self.constant(f"{name}.w", weight.astype(np.float32))])
        packed = self.random.integers(0, 256, (outputs, inputs // BLOCK, BLOCK // 2))
        scales = self.random.uniform(0.5, 1, outputs * (inputs // BLOCK)) / 4 / math.sqrt(inputs)
        parts = [
            self.constant(f"{name}.w", packed.astype(np.uint8)),
            self.constant(f"{name}.s", scales.astype(np.float32)),
        ]
        options = {"K": inputs, "N": outputs, "bits": 4, "block_size": BLOCK}
        return self.node("MatMulNBits", [x, *parts], domain=MICROSOFT, **options)

    def scale(self, name: str) -> str:
        return self.constant(name, self.random.uniform(0.5, 1, WIDTH).astype(np.float32))

    def tables(self) -> None:
        angles = np.outer(np.arange(PLACES), 0.5 ** np.arange(HEAD // 2))
        self.constant("cos", np.cos(angles).astype(np.float32))
        self.constant("sin", np.sin(angles).astype(np.float32))

    def embedding(self) -> str:
        table = self.random.standard_normal((WORDS, WIDTH)).astype(np.float32)
        return self.node("Gather", [self.constant("table", table), "input_ids"])

    def norm(self, name: str, x: str) -> str:
        """RMS normalization as PyTorch exports it."""
        two, epsilon = (
            self.constant(f"{name}.2", np.float32(2)),
            self.constant(f"{name}.e", EPSILON),
        )
        mean = self.node("ReduceMean", [self.node("Pow", [x, two])], axes=[-1])
        root = self.node("Sqrt", [self.node("Add", [mean, epsilon])])
        one = self.constant(f"{name}.1", np.float32(1))
        scaled = self.node("Mul", [x, self.node("Div", [one, root])])
        return self.node("Mul", [self.scale(f"{name}.s"), scaled])

    def feed_forward(self, name: str, h: str) -> str:
        gate, up = (self.linear(f"{name}.{part}", h, WIDTH, INNER) for part in ("gate", "up"))
        active = self.node("Mul", [gate, self.node("Sigmoid", [gate])])
        return self.linear(f"{name}.down", self.node("Mul", [active, up]), INNER, WIDTH)

    def model(self, inputs: list, outputs: list, opset: int) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "llama", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


EPSILON = np.float32(1e-5)
info = helper.make_tensor_value_info


def _rotated(w: LlamaWriter, x: str) -> str:
    """x cos + half-turned x sin, with tables gathered by positions, as PyTorch exports it."""
    first, second = w.node("Split", [x], f"{x}.a", f"{x}.b", axis=3), f"{x}.b"
    turned = w.node("Concat", [w.node("Neg", [second]), first], axis=3)
    return w.node("Add", [w.node("Mul", [x, "cos.now"]), w.node("Mul", [turned, "sin.now"])])


def _heads(w: LlamaWriter, x: str, name: str, heads: int) -> str:
    shape = w.constant(f"{name}.shape", np.array([0, 0, heads, HEAD]))
    return w.node("Transpose", [w.node("Reshape", [x, shape])], name, perm=[0, 2, 1, 3])


def exported_model() -> onnx.ModelProto:
    """As PyTorch and optimum export: past_key_values, present, a mask, positions; opset 17."""
    w = LlamaWriter()
    w.tables()
    axis = w.constant("one", np.array([1]))
    for table in ("cos", "sin"):
        now = w.node("Gather", [table, "position_ids"])
        both = w.node("Concat", [now, now], axis=2)
        w.node("Unsqueeze", [both, axis], f"{table}.now")
    total = w.node("Gather", [w.node("Shape", ["attention_mask"]), w.constant("at1", np.array(1))])
    zero, step = w.constant("zero", np.array(0)), w.constant("step", np.array(1))
    places = w.node("Range", [zero, total, step])
    last = w.constant("two", np.array([2]))
    seen = w.node("LessOrEqual", [places, w.node("Unsqueeze", ["position_ids", last])])
    there = w.node("Unsqueeze", [w.node("Cast", ["attention_mask"], to=TensorProto.BOOL), axis])
    allowed = w.node("Unsqueeze", [w.node("And", [seen, there]), axis])
    bias = w.node(
        "Where", [allowed, w.constant("no", np.float32(0)), w.constant("low", np.float32(-1e9))]
    )
    x = w.embedding()
    for i in range(LAYERS):
        h = w.norm(f"{i}.n1", x)
        q, k, v = (
            _heads(w, w.linear(f"{i}.{n}", h, WIDTH, count * HEAD), f"{i}.{n}h", count)
            for n, count in (("q", HEADS), ("k", SHARED), ("v", SHARED))
        )
        q, k = _rotated(w, q), _rotated(w, k)
        keys, values = (
            w.node("Concat", [f"past_key_values.{i}.{side}", new], f"present.{i}.{side}", axis=2)
            for side, new in (("key", k), ("value", v))
        )
        keys, values = (_repeated(w, f"{i}.{n}r", x) for n, x in (("k", keys), ("v", values)))
        scores = w.node("MatMul", [q, w.node("Transpose", [keys], perm=[0, 1, 3, 2])])
        scores = w.node("Div", [scores, w.constant(f"{i}.d", np.float32(math.sqrt(HEAD)))])
        found = w.node("MatMul", [w.node("Softmax", [w.node("Add", [scores, bias])]), values])
        merged = w.constant(f"{i}.merge", np.array([0, 0, WIDTH]))
        rows = w.node("Reshape", [w.node("Transpose", [found], perm=[0, 2, 1, 3]), merged])
        x = w.node("Add", [x, w.linear(f"{i}.o", rows, WIDTH, WIDTH)])
        x = w.node("Add", [x, w.feed_forward(f"{i}.f", w.norm(f"{i}.n2", x))])
    w.node("Identity", [w.linear("head", w.norm("norm", x), WIDTH, WORDS)], "logits")
    past = ("batch_size", SHARED, "past_sequence_length", HEAD)
    present = ("batch_size", SHARED, "past_sequence_length + sequence_length", HEAD)
    now = ("batch_size", "sequence_length")
    return w.model(
        [
            info("input_ids", INT64, now),
            info("attention_mask", INT64, ("batch_size", "past_sequence_length + sequence_length")),
            info("position_ids", INT64, now),
            *(info(f"past_key_values.{side}", FLOAT, past) for side in SIDES),
        ],
        [
            info("logits", FLOAT, (*now, WORDS)),
            *(info(f"present.{side}", FLOAT, present) for side in SIDES),
        ],
        17,
    )


def _repeated(w: LlamaWriter, name: str, x: str) -> str:
    """Each head of a group for all queries of the group, as `repeat_kv` of transformers."""
    two = w.constant(f"{name}.2", np.array([2]))
    parts = w.node("Concat", [w.node("Unsqueeze", [x, two])] * (HEADS // SHARED), axis=2)
    return w.node("Reshape", [parts, w.constant(f"{name}.s", np.array([1, HEADS, -1, HEAD]))])


def genai_model() -> onnx.ModelProto:
    """As onnxruntime-genai builds: GroupQueryAttention, weights in blocks of 4 bits."""
    w = LlamaWriter(blocks=True)
    w.tables()
    one = w.constant("one", np.array([1]))
    w.node("Sub", [w.node("ReduceSum", ["attention_mask", one], keepdims=0), one], "last")
    w.node("Cast", ["last"], "last32", to=TensorProto.INT32)
    w.node("Gather", [w.node("Shape", ["attention_mask"]), w.constant("at", np.array(1))], "total")
    w.node("Cast", ["total"], "total32", to=TensorProto.INT32)
    table = [
        w.constant("table", w.random.integers(0, 256, (WORDS, WIDTH // 2)).astype(np.uint8)),
        "input_ids",
        w.constant("scales", (w.random.uniform(1, 2, (WORDS, 2)) / 8).astype(np.float32)),
    ]
    x = w.node("GatherBlockQuantized", table, domain=MICROSOFT, block_size=BLOCK, bits=4)
    skip = None
    for i in range(LAYERS):
        h, x = _skip_norm(w, f"{i}.n1", x, skip)
        packed = w.linear(f"{i}.qkv", h, WIDTH, (HEADS + 2 * SHARED) * HEAD)
        taken = [f"past_key_values.{i}.{side}" for side in ("key", "value")]
        given = [f"present.{i}.{side}" for side in ("key", "value")]
        found = w.node(
            "GroupQueryAttention",
            [packed, "", "", *taken, "last32", "total32", "cos", "sin"],
            *(f"{i}.a", *given),
            domain=MICROSOFT,
            num_heads=HEADS,
            kv_num_heads=SHARED,
            do_rotary=1,
        )
        h, x = _skip_norm(w, f"{i}.n2", x, w.linear(f"{i}.o", found, WIDTH, WIDTH))
        skip = w.feed_forward(f"{i}.f", h)
    h, _ = _skip_norm(w, "norm", x, skip)
    w.node("Identity", [w.linear("head", h, WIDTH, WORDS)], "logits")
    past = ("batch_size", SHARED, "past_sequence_length", HEAD)
    present = ("batch_size", SHARED, "total_sequence_length", HEAD)
    now = ("batch_size", "sequence_length")
    return w.model(
        [
            info("input_ids", INT64, now),
            info("attention_mask", INT64, ("batch_size", "total_sequence_length")),
            *(info(f"past_key_values.{side}", FLOAT, past) for side in SIDES),
        ],
        [
            info("logits", FLOAT, (*now, WORDS)),
            *(info(f"present.{side}", FLOAT, present) for side in SIDES),
        ],
        21,
    )


def _skip_norm(w: LlamaWriter, name: str, x: str, skip: str | None) -> tuple[str, str]:
    scale, epsilon = w.scale(f"{name}.s"), float(EPSILON)
    if skip is None:
        op, options = "SimplifiedLayerNormalization", {"epsilon": epsilon, "axis": -1}
        return w.node(op, [x, scale], f"{name}.y", **options), x
    outputs = (f"{name}.y", "", "", f"{name}.sum")
    op = "SkipSimplifiedLayerNormalization"
    w.node(op, [x, skip, scale], *outputs, domain=MICROSOFT, epsilon=epsilon)
    return outputs[0], outputs[3]


def scattered_model(context: int) -> onnx.ModelProto:
    """With ops of ONNX 24: caches of a fixed size, TensorScatter, Attention with lengths."""
    w = LlamaWriter()
    w.tables()
    x = w.embedding()
    for i in range(LAYERS):
        h = w.node("RMSNormalization", [x, w.scale(f"{i}.n1")], axis=-1, epsilon=1e-5)
        q, k, v = (
            _heads(w, w.linear(f"{i}.{n}", h, WIDTH, count * HEAD), f"{i}.{n}h", count)
            for n, count in (("q", HEADS), ("k", SHARED), ("v", SHARED))
        )
        q, k = (w.node("RotaryEmbedding", [y, "cos", "sin", "position_ids"]) for y in (q, k))
        keys, values = (
            w.node("TensorScatter", [f"{side}_cache.{i}", new, "write_indices"], given, axis=2)
            for side, new, given in (
                ("key", k, f"updated_key_cache.{i}"),
                ("value", v, f"updated_value_cache.{i}"),
            )
        )
        found = w.node("Attention", [q, keys, values, "bias", "", "", "nonpad_kv_seqlen"])
        merged = w.constant(f"{i}.merge", np.array([0, 0, WIDTH]))
        rows = w.node("Reshape", [w.node("Transpose", [found], perm=[0, 2, 1, 3]), merged])
        x = w.node("Add", [x, w.linear(f"{i}.o", rows, WIDTH, WIDTH)])
        h = w.node("RMSNormalization", [x, w.scale(f"{i}.n2")], axis=-1, epsilon=1e-5)
        x = w.node("Add", [x, w.feed_forward(f"{i}.f", h)])
    w.node("Identity", [w.linear("head", x, WIDTH, WORDS)], "logits")
    places = w.constant("places", np.arange(context))
    last = w.constant("two", np.array([2]))
    seen = w.node("LessOrEqual", [places, w.node("Unsqueeze", ["position_ids", last])])
    w.node("Unsqueeze", [seen, w.constant("one", np.array([1]))], "bias")
    w.nodes = [*w.nodes[-3:], *w.nodes[:-3]]
    cache = ("batch", SHARED, context, HEAD)
    names = [f"{side}_cache.{i}" for i in range(LAYERS) for side in ("key", "value")]
    now = ("batch", "sequence")
    return w.model(
        [
            info("input_ids", INT64, now),
            info("position_ids", INT64, now),
            info("write_indices", INT64, ("batch",)),
            info("nonpad_kv_seqlen", INT64, ("batch",)),
            *(info(name, FLOAT, cache) for name in names),
        ],
        [
            info("logits", FLOAT, (*now, WORDS)),
            *(info(f"updated_{name}", FLOAT, cache) for name in names),
        ],
        24,
    )
