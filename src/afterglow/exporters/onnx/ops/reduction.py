"""Reductions, and running sums."""

from __future__ import annotations

from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports
from afterglow.graph import Op
from afterglow.ops import reduction as r

WORDS: dict[type[Op], str] = {
    r.ReduceSum: "ReduceSum",
    r.ReduceMean: "ReduceMean",
    r.ReduceMax: "ReduceMax",
    r.ReduceMin: "ReduceMin",
    r.ReduceProd: "ReduceProd",
}


@exports(*WORDS)
def reduce(n: NodeWriter) -> str:
    """The axes are an operand; none means that nothing is reduced."""
    rank = n.type(0).rank
    axes = tuple(sorted(axis % rank for axis in n.op.axes))
    if axes == (*range(2, rank),) and rank > 2 and n.op.keepdims and _is_pool(n):
        return n.emit("GlobalAveragePool", n.operand(0))
    return n.emit(
        WORDS[type(n.op)],
        n.operand(0),
        n.integers(*axes),
        keepdims=int(n.op.keepdims),
        noop_with_empty_axes=1,
    )


def _is_pool(n: NodeWriter) -> bool:
    return isinstance(n.op, r.ReduceMean) and n.type(0).dtype.is_float


@exports(r.CumSum)
def running_sum(n: NodeWriter) -> str:
    """Along an axis."""
    return n.emit(
        "CumSum",
        n.operand(0),
        n.integers(n.op.axis),
        exclusive=int(n.op.exclusive),
        reverse=int(n.op.reverse),
    )
