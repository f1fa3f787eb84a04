"""ONNX's casts."""

from __future__ import annotations

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.conversion import Cast, PowerRounding
from afterglow.types import DType
from afterglow.types.onnx_elements import dtype_named

_ROUNDINGS = {rounding.value: rounding for rounding in PowerRounding}


@onnx_op("Cast")
def cast_to_name(n: NodeContext) -> Value:
    """The first version calls the type by its name."""
    return _cast(n, dtype_named(n.text("to").upper()))


@onnx_op("Cast", since=6)
def cast(n: NodeContext) -> Value:
    """The type is an attribute."""
    return _cast(n, n.dtype("to"))


@onnx_op("CastLike")
def cast_like(n: NodeContext) -> Value:
    """The type is that of the second input."""
    return _cast(n, n[1].type.dtype)


def _cast(n: NodeContext, dtype: DType) -> Value:
    if n[0].type.dtype is dtype:
        return n[0]
    saturate = bool(n.integer("saturate", 1))
    return n.emit(Cast(dtype, saturate, n.choice("round_mode", _ROUNDINGS, "up")), n[0])
