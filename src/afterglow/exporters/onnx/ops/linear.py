"""Matrix products."""

from __future__ import annotations

from afterglow.exporters.onnx.layouts import plain, swapped
from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports
from afterglow.ops.einsum import Einsum
from afterglow.ops.linear import Det, MatMul


@exports(MatMul, layout=lambda node: plain(node.result.type.rank))
def matmul(n: NodeWriter) -> str:
    """ONNX transposes nothing: weights are stored transposed, others by a node."""
    flags = (n.op.transpose_lhs, n.op.transpose_rhs)
    ranks = (n.type(0).rank, n.type(1).rank)
    layouts = (swapped(r) if turn else plain(r) for turn, r in zip(flags, ranks, strict=True))
    lhs, rhs = (n.operand(i, layout) for i, layout in enumerate(layouts))
    return n.emit("MatMul", lhs, n.as_type(rhs, n.type(1).dtype, n.type(0).dtype))


@exports(Einsum)
def einsum(n: NodeWriter) -> str:
    """The equation is an attribute."""
    return n.emit("Einsum", *n.operands, equation=n.op.equation)


@exports(Det)
def determinant(n: NodeWriter) -> str:
    """Of the last two axes."""
    return n.emit("Det", *n.operands)
