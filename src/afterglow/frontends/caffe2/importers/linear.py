"""Caffe2's dense layers and matrix products."""

from __future__ import annotations

from afterglow.frontends.caffe2.registry import Caffe2Node, caffe2_op, flattened
from afterglow.frontends.common.linear import multiply
from afterglow.graph import Value
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.reduction import ReduceSum
from afterglow.support.errors import ModelError


@caffe2_op("FC", "FbFCPacked", "FCTransposed")
def dense(n: Caffe2Node) -> Value:
    """Rows are the axes before `axis`; weights are [O, K], or [K, O] if they are transposed."""
    x, weight = n[0], n[1]
    if not x.type.rank:
        raise ModelError(f"x must have 1 or more axes, it is {x.type}")
    axis = n.axis(x) if x.type.rank > 1 else 0
    is_transposed = n.proto.op_type == "FCTransposed"
    split = n.axis(weight, "axis_w")
    matrix = n.emit(Reshape(flattened(n, weight, split)), weight)
    rows = n.emit(Reshape(flattened(n, x, axis)), x)
    product = n.emit(MatMul(False, not is_transposed), rows, matrix)
    bias = n.get(2)
    if bias is not None:
        product = n.emit(Add(), product, bias)
    return n.emit(Reshape((*x.type.shape[:axis], product.type.shape[-1])), product)


def dense_relu(n: Caffe2Node) -> Value:
    """A dense layer, rectified."""
    return n.emit(Relu(), dense(n))


@caffe2_op("MatMul")
def matmul(n: Caffe2Node) -> Value:
    """Both operands as matrices; either may be transposed."""
    parts = []
    for index, side in enumerate("ab"):
        part = n[index]
        parts.append(n.emit(Reshape(flattened(n, part, n.axis(part, f"axis_{side}"))), part))
    return n.emit(MatMul(n.flag("trans_a"), n.flag("trans_b")), *parts)


@caffe2_op("BatchMatMul")
def batch_matmul(n: Caffe2Node) -> Value:
    """The product over the last two axes."""
    lhs, rhs = (
        _swapped(n, n[index]) if n.flag(name) else n[index]
        for index, name in enumerate(("trans_a", "trans_b"))
    )
    return multiply(n, lhs, rhs)


def _swapped(n: Caffe2Node, x: Value) -> Value:
    rank = x.type.rank
    if rank < 2:
        return x
    return n.emit(Transpose((*range(rank - 2), rank - 1, rank - 2)), x)


@caffe2_op("DotProduct")
def dot_product(n: Caffe2Node) -> Value:
    """The sum of products of each pair of rows."""
    x, y = n[0], n[1]
    if x.type.rank < 2:
        return n.emit(Mul(), x, y)
    axes = tuple(range(1, x.type.rank))
    return n.emit(ReduceSum(axes, False), n.emit(Mul(), x, y))
