"""Quantization parameters: how integers stand for real numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Quantization:
    """real = scale * (stored - offset), with one pair for all, or one for each index of an axis."""

    scales: tuple[float, ...]
    offsets: tuple[int, ...]
    axis: int | None = None

    def __post_init__(self) -> None:
        if not self.scales or len(self.scales) != len(self.offsets):
            raise ValueError("scales and offsets must pair up, and there must be at least one")
        if self.axis is None and len(self.scales) != 1:
            raise ValueError("several scales need the axis that they run along")
        if any(not scale > 0 for scale in self.scales):
            raise ValueError("scales must be positive")

    def __str__(self) -> str:
        if self.axis is None:
            return f"scale {self.scales[0]!r}, offset {self.offsets[0]}"
        return f"axis {self.axis}, scales {self.scales!r}, offsets {self.offsets!r}"


def spell_quantization(quantization: Quantization | None) -> dict[str, Any] | None:
    """Parameters for a whole tensor, as JSON can hold them."""
    if quantization is None:
        return None
    return {"scale": quantization.scales[0], "zero_point": quantization.offsets[0]}


def read_quantization(data: Mapping[str, Any] | None = None) -> Quantization | None:
    """The parameters that were spelled so."""
    return None if data is None else Quantization((data["scale"],), (data["zero_point"],))
