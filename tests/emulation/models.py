"""Small models of every kind, such as microcontrollers run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

from tests.frontends.models import INT64, info, model, node

DIGITS = Path("examples/digits/digits.onnx")


class Weights:
    """Random weights, each of a size that keeps results near one."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(11)
        self.constants: dict[str, np.ndarray] = {}

    def add(self, name: str, *shape: int) -> str:
        """Floats of a shape, under a name."""
        spread = np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 4.0
        self.constants[name] = (self._random.standard_normal(shape) / spread).astype(np.float32)
        return name

    def add_bytes(self, name: str, *shape: int) -> str:
        """Signed bytes of a shape, under a name."""
        self.constants[name] = self._random.integers(-127, 128, shape).astype(np.int8)
        return name

    def put(self, name: str, value: object, dtype: object) -> str:
        """Just this, under a name."""
        self.constants[name] = np.array(value, dtype)  # type: ignore[call-overload]
        return name


def digits() -> Path:
    """The example: two convolutions and a layer on images of 8 x 8, trained."""
    return DIGITS


def mlp() -> onnx.ModelProto:
    """Two hidden layers."""
    w = Weights()
    nodes = [
        node("Gemm", ["x", w.add("w1", 48, 32), w.add("b1", 32)], ["h1"]),
        node("Relu", ["h1"], ["r1"]),
        node("Gemm", ["r1", w.add("w2", 32, 24), w.add("b2", 24)], ["h2"]),
        node("Tanh", ["h2"], ["r2"]),
        node("MatMul", ["r2", w.add("w3", 24, 10)], ["s"]),
        node("Softmax", ["s"], ["y"], axis=-1),
    ]
    return _model(nodes, w, (1, 48), (1, 10))


def cnn() -> onnx.ModelProto:
    """A convolution, depthwise and pointwise ones, a residual connection, pooling."""
    w = Weights()
    pads = {"pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", ["x", w.add("w1", 12, 3, 3, 3), w.add("b1", 12)], ["c1"], **pads),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", w.add("w2", 12, 1, 3, 3), w.add("b2", 12)], ["c2"], group=12, **pads),
        node("Clip", ["c2", w.put("zero", 0, "f4"), w.put("six", 6, "f4")], ["r2"]),
        node("Conv", ["r2", w.add("w3", 12, 12, 1, 1), w.add("b3", 12)], ["c3"]),
        node("Add", ["c3", "r1"], ["sum"]),
        node("MaxPool", ["sum"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["p"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", w.add("w4", 12, 10), w.add("b4", 10)], ["y"]),
    ]
    return _model(nodes, w, (1, 3, 12, 10), (1, 10))


def mnist_cnn() -> onnx.ModelProto:
    """The usual network for images of 28 x 28: two convolutions, two layers."""
    w = Weights()
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    pads = {"pads": [2, 2, 2, 2]}
    nodes = [
        node("Conv", ["x", w.add("w1", 8, 1, 5, 5), w.add("b1", 8)], ["c1"], **pads),
        node("Relu", ["c1"], ["r1"]),
        node("MaxPool", ["r1"], ["p1"], **pool),
        node("Conv", ["p1", w.add("w2", 16, 8, 5, 5), w.add("b2", 16)], ["c2"], **pads),
        node("Relu", ["c2"], ["r2"]),
        node("MaxPool", ["r2"], ["p2"], kernel_shape=[3, 3], strides=[3, 3]),
        node("Flatten", ["p2"], ["f"]),
        node("Gemm", ["f", w.add("w3", 256, 10), w.add("b3", 10)], ["s"]),
        node("Softmax", ["s"], ["y"], axis=-1),
    ]
    return _model(nodes, w, (1, 1, 28, 28), (1, 10))


def lstm() -> onnx.ModelProto:
    """A recurrent layer over a sequence, and a layer on its last output."""
    w = Weights()
    weights = [w.add("w", 1, 64, 8), w.add("r", 1, 64, 16), w.add("b", 1, 128)]
    nodes = [
        node("LSTM", ["x", *weights], ["", "h"], hidden_size=16),
        node("Reshape", ["h", w.put("shape", [1, 16], "i8")], ["last"]),
        node("Gemm", ["last", w.add("w2", 16, 5), w.add("b2", 5)], ["y"]),
    ]
    return _model(nodes, w, (10, 1, 8), (1, 5))


def transformer() -> onnx.ModelProto:
    """A block: attention of one head, norms, a feed-forward network with GELU."""
    w = Weights()
    width, tokens = 24, 9
    norm = [w.put("scale", np.ones(width), "f4"), w.put("shift", np.zeros(width), "f4")]
    nodes = [
        *(node("MatMul", ["x", w.add(f"w{n}", width, width)], [n]) for n in "qkv"),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["raw"]),
        node("Mul", ["raw", w.put("factor", width**-0.5, "f4")], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["o"]),
        node("Add", ["o", "x"], ["a"]),
        node("LayerNormalization", ["a", *norm], ["n"], axis=-1),
        node("MatMul", ["n", w.add("w1", width, 48)], ["h"]),
        node("Gelu", ["h"], ["g"]),
        node("MatMul", ["g", w.add("w2", 48, width)], ["m"]),
        node("Add", ["m", "n"], ["y"]),
    ]
    return _model(nodes, w, (1, tokens, width), (1, tokens, width), opset=20)


def int8_cnn() -> onnx.ModelProto:
    """Quantized convolutions, one of them depthwise, and a layer."""
    w = Weights()
    scales = {name: w.put(name, value, "f4") for name, value in (("sx", 0.02), ("sw", 0.01))}
    zero, signed = w.put("zx", 128, "u1"), w.put("zw", 0, "i1")

    def conv(name: str, x: str, shape: tuple[int, ...], spread: float, group: int = 1) -> list:
        weight, scale = w.add_bytes(f"w_{name}", *shape), w.put(f"s_{name}", spread, "f4")
        operands = [x, scales["sx"], zero, weight, scales["sw"], signed, scale, zero]
        pad = shape[-1] // 2
        return [node("QLinearConv", operands, [name], group=group, pads=[pad] * 4)]

    nodes = [
        node("QuantizeLinear", ["x", scales["sx"], zero], ["xq"]),
        *conv("c1", "xq", (8, 3, 3, 3), 0.1),
        *conv("c2", "c1", (8, 1, 3, 3), 0.1, 8),
        *conv("c3", "c2", (16, 8, 1, 1), 0.1),
        node("DequantizeLinear", ["c3", scales["sx"], zero], ["d"]),
        node("GlobalAveragePool", ["d"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", w.add("w4", 16, 10), w.add("b4", 10)], ["y"]),
    ]
    return _model(nodes, w, (1, 3, 12, 10), (1, 10))


MODELS: dict[str, Callable[[], onnx.ModelProto | Path]] = {
    "digits": digits,
    "mnist-cnn": mnist_cnn,
    "mlp": mlp,
    "cnn": cnn,
    "lstm": lstm,
    "transformer": transformer,
    "int8-cnn": int8_cnn,
}
"""By name."""


def _model(
    nodes: list[onnx.NodeProto], w: Weights, shape: object, out: object, opset: int = 17
) -> onnx.ModelProto:
    inputs, outputs = [info("x", shape)], [info("y", out)]  # type: ignore[arg-type]
    return model(nodes, opset=opset, inputs=inputs, outputs=outputs, constants=w.constants)


def look_ups() -> onnx.ModelProto:
    """x[i, j] + x[i, 0], for pairs of indices."""
    nodes = [
        node("GatherND", ["x", "pairs"], ["one"]),
        node("Split", ["pairs"], ["i", "j"], axis=1, num_outputs=2),
        node("Squeeze", ["i"], ["rows"]),
        node("Gather", ["x", "rows"], ["lines"]),
        node("Gather", ["lines", "first"], ["other"], axis=1),
        node("Add", ["one", "other"], ["y"]),
    ]
    return model(
        nodes,
        opset=18,
        inputs=[info("x", (7, 3)), info("pairs", (2, 2), INT64)],
        outputs=[info("y", (2,))],
        constants={"first": np.array(0)},
    )


def wide_numbers() -> onnx.ModelProto:
    """Numbers of 64 bits, floats and integers, which small processors have no instructions for."""
    w = Weights()
    nodes = [
        node("Cast", ["x"], ["d"], to=onnx.TensorProto.DOUBLE),
        node("Exp", ["d"], ["e"]),
        node("Sqrt", ["e"], ["s"]),
        node("Div", ["d", "s"], ["q"]),
        node("Mul", ["q", w.put("thousand", 1000.0, "f8")], ["m"]),
        node("Cast", ["m"], ["i"], to=onnx.TensorProto.INT64),
        node("Div", ["i", w.put("seven", 7, "i8")], ["j"]),
        node("ReduceMean", ["j"], ["mean"], axes=[1], keepdims=1),
        node("Add", ["j", "mean"], ["k"]),
        node("Cast", ["k"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    return _model(nodes, w, (2, 9), (2, 9))
