"""Casts where they are needed."""

from __future__ import annotations

from afterglow.frontends.definition.context import NodeContext
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.types import DType


def as_dtype(n: NodeContext, x: Value, dtype: DType) -> Value:
    """`x` as elements of a type: itself if it holds them already."""
    return x if x.type.dtype is dtype else n.emit(Cast(dtype), x)
