"""Random numbers."""

from __future__ import annotations

from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports
from afterglow.ops.random import Dropout


@exports(Dropout)
def dropout(n: NodeWriter) -> str:
    """Nothing is dropped unless whoever trains the model says so; the rate is an operand."""
    return n.emit("Dropout", n.operand(0), n.scalar(n.op.rate))
