"""Matrix products."""

from __future__ import annotations

from afterglow.frontends.definition.context import NodeContext
from afterglow.graph import Value
from afterglow.ops.elementwise import Mul, scalar
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape


def multiply(n: NodeContext, lhs: Value, rhs: Value) -> Value:
    """The product of operands of any rank but 0; a vector is a row on the left, else a column."""
    row, column = lhs.type.rank == 1, rhs.type.rank == 1
    if row:
        lhs = n.emit(Reshape((1, *lhs.type.shape)), lhs)
    if column:
        rhs = n.emit(Reshape((*rhs.type.shape, 1)), rhs)
    product = n.emit(MatMul(), lhs, rhs)
    if not row and not column:
        return product
    *batch, rows, columns = product.type.shape
    shape = (*batch, *(() if row else (rows,)), *(() if column else (columns,)))
    return n.emit(Reshape(shape), product)


def scaled(n: NodeContext, factor: float, x: Value) -> Value:
    """x times a number; itself if that is 1."""
    return x if factor == 1 else n.emit(Mul(), x, scalar(n.builder, factor, x))
