"""Conversions of element types."""

from __future__ import annotations

from afterglow.exporters.onnx.file import onnx_type
from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports
from afterglow.ops.conversion import Cast


@exports(Cast)
def cast(n: NodeWriter) -> str:
    """To a type; only floats of 8 bits have to say what becomes of large numbers."""
    saturates = None if n.op.saturate else 0
    return n.emit("Cast", *n.operands, to=onnx_type(n.op.dtype), saturate=saturates)
