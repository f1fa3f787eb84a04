"""The graph IR as ONNX: one function per op in `ops`, and what puts them together."""

from afterglow.exporters.onnx import ops as _ops  # noqa: F401  fills the table
from afterglow.exporters.onnx.writer import to_onnx

__all__ = ["to_onnx"]
