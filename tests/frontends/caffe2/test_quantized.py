"""Int8 operators compute, to the step, what their operands stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow.frontends.caffe2.importers import CAFFE2
from afterglow.support.errors import AfterglowError
from tests.frontends.caffe2.cases import nchw, nhwc, run_onnx
from tests.frontends.caffe2.nets import Net, Op, op

rng = np.random.default_rng(1)
X_SCALE, X_ZERO, Y_SCALE, Y_ZERO = 0.05, 120, 0.25, 100
OUT = {"Y_scale": Y_SCALE, "Y_zero_point": Y_ZERO}
IMAGE = rng.normal(0, 2, (1, 6, 5, 4)).astype(np.float32)
WEIGHT = rng.integers(0, 256, (8, 3, 3, 4), np.uint8)
DENSE = rng.integers(0, 256, (7, 120), np.uint8)
COUNTS = rng.integers(-200, 200, 8).astype(np.int32)


def quantized(x: np.ndarray, scale: float = Y_SCALE, zero: int = Y_ZERO) -> np.ndarray:
    return (np.rint(x / np.float32(scale)) + zero).clip(0, 255).astype(np.uint8)


def real(x: np.ndarray, scale: float, zero: int = 0) -> np.ndarray:
    return (x.astype(np.float32) - zero) * np.float32(scale)


X = real(quantized(IMAGE, X_SCALE, X_ZERO), X_SCALE, X_ZERO)
W, DENSE_W, B = real(WEIGHT, 0.02, 130), real(DENSE, 0.01, 128), real(COUNTS, X_SCALE * 0.02)


def convolved(x: np.ndarray) -> np.ndarray:
    return nhwc(run_onnx("Conv", [nchw(x), nchw(W), B], pads=[1, 1, 1, 1]))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.reshape(1, -1) - x.max())
    return (e / e.sum()).reshape(x.shape)


CONV = {"kernel": 3, "pad": 1, "order": "NHWC", **OUT}
POOL = {"kernel": 2, "order": "NHWC", **OUT}
TRANSPOSED = nhwc(rng.integers(0, 256, (4, 5, 3, 3), np.uint8))
CASES: dict[str, tuple[list[str], dict[str, Any], Callable[..., np.ndarray]]] = {
    "Int8Conv": (["x", "w", "b"], CONV, convolved),
    "Int8ConvRelu": (["x", "w", "b"], CONV, lambda x: convolved(x).clip(0, None)),
    "Int8ConvTranspose": (
        ["x", "t"],
        {"kernel": 3, "order": "NHWC", **OUT},
        lambda x: nhwc(run_onnx("ConvTranspose", [nchw(x), nchw(real(TRANSPOSED, 0.02, 130))])),
    ),
    "Int8FC": (["x", "d"], OUT, lambda x: x.reshape(1, -1) @ DENSE_W.T),
    "Int8FCRelu": (["x", "d"], OUT, lambda x: (x.reshape(1, -1) @ DENSE_W.T).clip(0, None)),
    "Int8Relu": (["x"], OUT, lambda x: x.clip(0, None)),
    "Int8Sigmoid": (
        ["x"],
        {"Y_scale": 1 / 256, "Y_zero_point": 0},
        lambda x: 1 / (1 + np.exp(-x)),
    ),
    "Int8LeakyRelu": (["x"], {"alpha": 0.5, **OUT}, lambda x: np.where(x > 0, x, x / 2)),
    "Int8Softmax": (["x"], {"Y_scale": 1 / 256, "Y_zero_point": 0}, softmax),
    "Int8Add": (["x", "x"], OUT, lambda x: x + x),
    "Int8AddRelu": (["x", "x"], OUT, lambda x: (x + x).clip(0, None)),
    "Int8Sum": (["x", "x"], OUT, lambda x: x + x),
    "Int8SumRelu": (["x", "x"], OUT, lambda x: (x + x).clip(0, None)),
    "Int8AveragePool": (
        ["x"],
        POOL,
        lambda x: nhwc(run_onnx("AveragePool", [nchw(x)], kernel_shape=[2, 2])),
    ),
    "Int8AveragePoolRelu": (
        ["x"],
        {"global_pooling": 1, "order": "NHWC", **OUT},
        lambda x: x.mean((1, 2), keepdims=True).clip(0, None),
    ),
    "Int8MaxPool": (
        ["x"],
        POOL,
        lambda x: nhwc(run_onnx("MaxPool", [nchw(x)], kernel_shape=[2, 2])),
    ),
    "Int8MaxPoolRelu": (
        ["x"],
        {"global_pooling": 1, "order": "NHWC", **OUT},
        lambda x: x.max((1, 2), keepdims=True).clip(0, None),
    ),
    "Int8Flatten": (["x"], OUT, lambda x: x.reshape(1, -1)),
    "Int8Reshape": (["x"], {"shape": [5, -1], **OUT}, lambda x: x.reshape(5, 24)),
    "Int8Transpose": (["x"], {"axes": [0, 3, 1, 2], **OUT}, nchw),
    "Int8Slice": (["x"], {"starts": [0, 1], "ends": [-1, 4], **OUT}, lambda x: x[:, 1:4]),
    "Int8Concat": (["x", "x"], {"axis": 3, **OUT}, lambda x: np.concatenate([x, x], 3)),
    "Int8ChannelShuffle": (
        ["x"],
        {"group": 2, "order": "NHWC", **OUT},
        lambda x: x[..., [0, 2, 1, 3]],
    ),
    "Int8ResizeNearest": (
        ["x"],
        {"height_scale": 2.0, "width_scale": 2.0, "order": "NHWC", **OUT},
        lambda x: x.repeat(2, 1).repeat(2, 2),
    ),
}


def stored(name: str, array: np.ndarray, scale: float, zero: int) -> Op:
    args = {"shape": [*array.shape], "Y_scale": scale, "Y_zero_point": zero}
    if array.dtype == np.uint8:
        return op("Int8GivenTensorFill", (), [name], values=array.tobytes(), **args)
    return op("Int8GivenIntTensorFill", (), [name], values=array.tolist(), **args)


INIT = Net(
    [
        stored("w", WEIGHT, 0.02, 130),
        stored("t", TRANSPOSED, 0.02, 130),
        stored("d", DENSE, 0.01, 128),
        stored("b", COUNTS, X_SCALE * 0.02, 0),
    ]
)
QUANTIZE = op("Int8Quantize", ["real"], ["x"], Y_scale=X_SCALE, Y_zero_point=X_ZERO)


def compiled(ops: list[Op], outputs: list[str], **options: Any) -> Any:
    predict = Net([QUANTIZE, *ops], ["real"], outputs)
    pair = INIT.binary(), predict.binary()
    return ag.compile(pair, shapes={"real": IMAGE.shape}, cache=False, **options)


@pytest.fixture(scope="module")
def computed() -> dict[str, np.ndarray]:
    ops = [Op(type, inputs, [type], args) for type, (inputs, args, _) in CASES.items()]
    model = compiled(ops, [*CASES], backend="interpreter", optimize=False)
    return dict(zip(CASES, model.run(None, {"real": IMAGE}), strict=True))


@pytest.mark.parametrize("type", CASES)
def test_an_int8_operator_computes_on_real_numbers(type: str, computed: Any) -> None:
    _, args, expected = CASES[type]
    wanted = quantized(expected(X), args["Y_scale"], args["Y_zero_point"])
    assert computed[type].dtype == np.uint8
    assert computed[type].shape == wanted.shape
    assert np.abs(computed[type].astype(int) - wanted).max() <= 1
    assert (computed[type] != wanted).mean() < 0.02


def test_every_int8_operator_has_a_case() -> None:
    known = {op_type for _, op_type in CAFFE2.importers if op_type.startswith("Int8")}
    assert known == {*CASES, "Int8Quantize", "Int8Dequantize"}


def test_a_chain_of_int8_operators_is_compiled_in_integers() -> None:
    ops = [
        op("Int8ConvRelu", ["x", "w", "b"], ["c"], **CONV),
        op("Int8Flatten", ["c"], ["f"]),
        op("Int8Dequantize", ["f"], ["y"]),
    ]
    model = compiled(ops, ["y"])
    expected = real(quantized(convolved(X).clip(0, None)), Y_SCALE, Y_ZERO).reshape(1, -1)
    np.testing.assert_allclose(model(IMAGE), expected, 0, 0.26)
    assert "quantized_conv" in model.ir("lowered")


def test_bytes_without_a_scale_are_refused() -> None:
    predict = Net([op("Int8Dequantize", ["u"])], ["u"], ["y"])
    with pytest.raises(AfterglowError) as caught:
        ag.compile(predict.binary(), shapes={"u": (2,)}, cache=False)
    assert caught.value.what == "there is no scale for input 0, 'u'"


def test_zero_points_that_no_byte_can_be_are_refused() -> None:
    weight = stored("u", np.zeros(2, np.uint8), 1.0, 300)
    net = Net([weight, op("Int8Dequantize", ["u"])], [], ["y"])
    with pytest.raises(AfterglowError) as caught:
        ag.compile(net.binary(), cache=False)
    assert caught.value.what == "the zero points of input 0 are (300,), it is u8[2]"
