"""TFLite's matrix products."""

from __future__ import annotations

import math

from afterglow.frontends.tflite.importers.activation import activated
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape
from afterglow.support.errors import ModelError, UnsupportedError


@tflite_op("FULLY_CONNECTED")
def fully_connected(n: TfliteNode) -> Value:
    """x, as a matrix, times the transposed weight [O, I], plus bias."""
    x, weight, bias = n[0], n[1], n.get(2)
    if n.word("weights_format", "DEFAULT") != "DEFAULT":
        raise UnsupportedError("shuffled weights are only there for quantized integers")
    outputs, inner = n.extents(weight, 2)
    flat = flattened(n, x, inner)
    y = n.emit(MatMul(transpose_rhs=True), flat, weight)
    if bias is not None:
        y = n.emit(Add(), y, bias)
    y = activated(n, y)
    if not n.flag("keep_num_dims") or x.type.rank == 2:
        return y
    return n.emit(Reshape((*x.type.shape[:-1], outputs)), y)


def flattened(n: TfliteNode, x: Value, inner: int) -> Value:
    """x as a matrix whose rows have so many elements."""
    if x.type.rank == 2 and x.type.shape[1] == inner:
        return x
    size = math.prod(x.type.shape)
    if inner < 1 or size % inner:
        raise ModelError(f"{x.type} cannot be divided into rows of {inner} elements")
    return n.emit(Reshape((size // inner, inner)), x)
