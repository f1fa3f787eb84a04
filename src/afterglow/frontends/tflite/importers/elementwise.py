"""TFLite's element-wise ops."""

from __future__ import annotations

from afterglow.frontends.tflite.importers.activation import activated
from afterglow.frontends.tflite.node import TfliteNode
from afterglow.frontends.tflite.registry import tflite_op
from afterglow.graph import Op, Value
from afterglow.ops import elementwise as e

_FUSED: dict[str, type[Op]] = {"ADD": e.Add, "SUB": e.Sub, "MUL": e.Mul, "DIV": e.Div}


@tflite_op(*_FUSED)
def arithmetic(n: TfliteNode) -> Value:
    """Two operands, broadcast; an activation function may be fused."""
    return activated(n, n.emit(_FUSED[n.proto.op_type](), n[0], n[1]))
