"""The gradients of a loss, of every weight of small networks, against differences."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import Builder, Function, Value
from afterglow.ops.activation import Gelu, Relu
from afterglow.ops.attention import Attention
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add, Mul, Neg
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.normalization import BatchNorm, LayerNorm
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.ops.recurrent import LSTM
from afterglow.ops.reduction import ReduceMean, ReduceSum
from afterglow.ops.softmax import LogSoftmax
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f64, i64
from tests.autodiff.differences import assert_gradients


class Network:
    """A function of doubles whose inputs are data and weights."""

    def __init__(self) -> None:
        self.f = Function("main")
        self.b = Builder(self.f)
        self.inputs: list[Array] = []
        self.rng = np.random.default_rng(1)

    def weight(self, *shape: int, low: float = -0.6) -> Value:
        self.inputs.append(self.rng.uniform(low, low + 1.2, shape))
        return self.f.input("w", TensorType(f64, shape))

    def linear(self, x: Value, width: int) -> Value:
        product = self.b.emit(MatMul(), x, self.weight(x.type.shape[-1], width))
        return self.b.emit(Add(), product, self.weight(width))

    def conv(self, x: Value, op: Conv, *weight: int) -> Value:
        return self.b.emit(op, x, self.weight(*weight), self.weight(weight[0]))

    def check(self, scores: Value, labels: list[int]) -> None:
        """Of the mean cross-entropy with these labels."""
        b, classes = self.b, scores.type.shape[-1]
        logs = b.emit(LogSoftmax(), scores)
        picked = b.emit(Mul(), logs, b.constant(np.eye(classes)[labels]))
        total = b.emit(Neg(), b.emit(ReduceSum((1,)), picked))
        self.f.output("loss", b.emit(ReduceMean((0,)), total))
        assert_gradients(self.f, self.inputs)


def test_a_perceptron() -> None:
    n = Network()
    hidden = n.b.emit(Gelu(), n.linear(n.weight(4, 5), 7))
    n.check(n.linear(hidden, 3), [0, 2, 1, 1])


def test_a_convolutional_network() -> None:
    n, one = Network(), (1, 1)
    x = n.weight(2, 9, 9, 2)
    x = n.conv(x, Conv((2, 2), (1, 1, 1, 1), one), 4, 3, 3, 2)
    parameters = [n.weight(4) for _ in range(3)]
    x = n.b.emit(BatchNorm(), x, *parameters, n.weight(4, low=0.5))
    x = n.b.emit(MaxPool((2, 2), one, (0, 0, 1, 1), one), n.b.emit(Relu(), x))
    x = n.conv(x, Conv(one, (1, 0, 1, 0), (1, 2), groups=4), 4, 3, 2, 1)
    x = n.b.emit(AvgPool((3, 3), (2, 2), (0,) * 4, one), x)
    flat = n.b.emit(Reshape((2, x.type.size // 2)), x)
    n.check(n.linear(flat, 3), [2, 0])


def test_a_transformer() -> None:
    n = Network()
    table = n.weight(11, 8)
    tokens = n.b.constant(np.array([[1, 10, 1, 4]], np.int64))
    assert tokens.type.dtype is i64
    x = n.b.emit(Gather(0), table, tokens)
    normal = n.b.emit(LayerNorm(), x, n.weight(8), n.weight(8))
    heads = [
        n.b.emit(Transpose((0, 2, 1, 3)), n.b.emit(Reshape((1, 4, 2, 4)), n.linear(normal, 8)))
        for _ in range(3)
    ]
    mixed = n.b.emit(Attention(0.5, causal=True), *heads)
    joined = n.b.emit(Reshape((1, 4, 8)), n.b.emit(Transpose((0, 2, 1, 3)), mixed))
    x = n.b.emit(Add(), x, n.linear(joined, 8))
    n.check(n.linear(n.b.emit(Reshape((4, 8)), x), 11), [10, 1, 4, 0])


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrent_network_in_both_orders(reverse: bool) -> None:
    n = Network()
    x, weights = n.weight(2, 1, 2), [n.weight(4, 2), n.weight(4, 1), n.weight(4)]
    states = [n.weight(1, 1), n.weight(1, 1)]
    results = n.b.emit_all(LSTM(reverse=reverse), x, *weights, None, *states)
    for result in results:
        n.f.output(result.name, result)
    assert_gradients(n.f, n.inputs)
    assert "lstm_gradient" in {node.op.mnemonic for node in n.f.nodes}
    assert_gradients(n.f, n.inputs)
