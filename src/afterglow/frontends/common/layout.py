"""Between channels first, [N, C, spatial…], and our channels last, [N, spatial…, C]."""

from __future__ import annotations

from afterglow.frontends.definition.context import NodeContext
from afterglow.graph import Value
from afterglow.ops.movement import Transpose


def to_channels_last(n: NodeContext, x: Value) -> Value:
    """Move axis 1 to the end; as it is where that moves nothing."""
    rank = x.type.rank
    return x if rank < 3 else n.emit(Transpose((0, *range(2, rank), 1)), x)


def to_channels_first(n: NodeContext, y: Value) -> Value:
    """Move the last axis to place 1; as it is where that moves nothing."""
    rank = y.type.rank
    return y if rank < 3 else n.emit(Transpose((0, rank - 1, *range(1, rank - 1))), y)
