"""Permute the rows of constant weights, so that a transpose before the product is not needed.

A feature map that is flattened before a fully connected layer was transposed first, if the model
had its channels first. The order of the columns does not matter to the product, only that the rows
of the weights have the same: they are reordered once, when compiling.
"""

from __future__ import annotations

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.quantization import DequantizeLinear
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.layouts.layout import Layout
from afterglow.transforms.layouts.moved import has_constant_rows
from afterglow.transforms.layouts.permutations import inverse
from afterglow.transforms.matching.values import constant_like
from afterglow.types import Array
from afterglow.types.later import LARGE, LaterArray, ReorderedArray


@rewrite(MatMul)
def reorder_rows(node: Node, b: Builder) -> Value | None:
    """matmul(reshape(transpose(x), s), w)  ->  matmul(reshape(x, s), w'),  w' = w in x's order.

    Only where the transpose moves nothing but what the reshape makes the columns.
    """
    match node:
        case Node(
            MatMul(transpose_lhs=False) as op,
            [Value(Node(Reshape(shape), [Value(Node(Transpose(perm), [Value() as x])) as y])), _],
        ) if has_constant_rows(node):
            layout = Layout(y.type.shape, inverse(perm)).carried(shape)
            columns = None if layout is None else layout.within_last_axis(shape)
            if columns is None:
                return None
            weights = _reordered(b, node.given[1], columns, int(op.transpose_rhs))
            return b.emit(op, b.emit(Reshape(shape), x), weights)
    return None


def _reordered(b: Builder, weights: Value, columns: Layout, axis: int) -> Value:
    match weights:
        case Value(Node(DequantizeLinear() as op, [Constant() as stored, *parts])):
            return b.emit(op, _reordered(b, stored, columns, axis), *parts)
        case Constant(data):
            return constant_like(b, weights, _in_order(data, columns, axis), weights.type)
    raise AssertionError("only constants have rows to reorder")


def _in_order(data: Array, columns: Layout, axis: int) -> Array | LaterArray:
    """An array whose elements along one axis come in another order."""
    later = ReorderedArray(data, axis, columns.factors, columns.perm)
    return later if data.nbytes >= LARGE else later.array()


REORDER_ROWS = RewritePass("reorder-rows", (reorder_rows,))
