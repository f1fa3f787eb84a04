"""Constants made from other constants without copying them where that is possible."""

from __future__ import annotations

from afterglow.graph import Builder, Constant
from afterglow.types import Array, TensorType


def constant_like(b: Builder, source: Constant, data: Array, type: TensorType) -> Constant:
    """Own `data`, which comes from `source`, under a name that says so."""
    return b.function.module.constant(source.name, data, type)
