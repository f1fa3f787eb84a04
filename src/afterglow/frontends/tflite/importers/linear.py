"""TFLite's matrix products."""

from __future__ import annotations

from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.importers.activation import activated
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Value
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.support.errors import ModelError, UnsupportedError


@tflite_op("FULLY_CONNECTED")
def fully_connected(n: TfliteNode) -> Value:
    """x, as a matrix, times the transposed weight [O, I], plus bias."""
    x, weight, bias = n[0], n[1], n.get(2)
    if n.word("weights_format", "DEFAULT") != "DEFAULT":
        raise UnsupportedError("shuffled weights are only there for quantized integers")
    outputs, inner = n.extents(weight, 2)
    y = n.emit(MatMul(transpose_rhs=True), as_rows(n, x, inner), weight)
    if bias is not None:
        y = n.emit(Add(), y, bias)
    y = activated(n, y)
    return reshaped(n, y, (*x.type.shape[:-1], outputs)) if n.flag("keep_num_dims") else y


def as_rows(n: TfliteNode, x: Value, inner: int) -> Value:
    """x as a matrix whose rows have so many elements."""
    size = x.type.size
    if inner < 1 or size % inner:
        raise ModelError(f"{x.type} cannot be divided into rows of {inner} elements")
    return reshaped(n, x, (size // inner, inner))


@tflite_op("BATCH_MATMUL")
def batch_matmul(n: TfliteNode) -> Value:
    """Either operand may be transposed."""
    return n.emit(MatMul(n.flag("adj_x"), n.flag("adj_y")), n[0], n[1])
