"""Ops that look for the largest."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports
from afterglow.ops.search import ArgMax, ArgMin, TopK


@exports(TopK)
def top_k(n: NodeWriter) -> Sequence[str]:
    """How many is an operand."""
    return n.emit_all(
        "TopK",
        (n.operand(0), n.integers(n.op.k)),
        2,
        axis=n.op.axis,
        largest=int(n.op.largest),
        sorted=int(n.op.sorted),
    )


@exports(ArgMax, ArgMin)
def place_of_extreme(n: NodeWriter) -> str:
    """The first place, or the last."""
    return n.emit(
        type(n.op).__name__,
        n.operand(0),
        axis=n.op.axis,
        keepdims=int(n.op.keepdims),
        select_last_index=int(n.op.last_index),
    )
