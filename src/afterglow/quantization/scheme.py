"""How activations are quantized: which integers stand for a range, and how the range is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from afterglow.types import DType
from afterglow.types.dtype import i8, i16, u8

ELEMENT_TYPES = (i8, u8, i16)
"""Types that quantized activations are stored in."""
DEFAULT_PERCENTILE = 99.99


class Scheme(StrEnum):
    """How scale and offset follow from a range, which always includes zero."""

    ASYMMETRIC = "asymmetric"
    """The ends of the range are the least and the greatest integer."""
    SYMMETRIC = "symmetric"
    """Zero is the middle integer."""
    SYMMETRIC_UINT8 = "symmetric_uint8"
    """Zero is the middle integer, or the least one where no number is negative."""
    POWER_OF_TWO = "power_of_two"
    """Zero is the middle integer, and the scale is a power of two."""


class Method(StrEnum):
    """How the range is chosen from what was observed."""

    MINMAX = "minmax"
    """All numbers observed."""
    AVERAGE = "average"
    """Moving averages of the least and the greatest number of each run."""
    PERCENTILE = "percentile"
    """All but a given share of the numbers."""
    ENTROPY = "entropy"
    """The range whose quantized histogram has the least divergence (KL) from the histogram."""
    MSE = "mse"
    """The range with the least mean squared error, of rounding and of saturation."""


@dataclass(frozen=True)
class Calibration:
    """How the parameters of activations are chosen from what was observed of them."""

    scheme: Scheme = Scheme.ASYMMETRIC
    method: Method = Method.MINMAX
    dtype: DType = u8
    percentile: float = DEFAULT_PERCENTILE
    """The share of numbers, in percent, that `Method.PERCENTILE` keeps in the range."""

    def __post_init__(self) -> None:
        if self.dtype not in ELEMENT_TYPES:
            known = ", ".join(map(str, ELEMENT_TYPES))
            raise ValueError(f"activations are quantized to {known}, not to {self.dtype}")
        if not 0 < self.percentile <= 100:
            raise ValueError(
                f"the percentile must be above 0 and at most 100, got {self.percentile}"
            )
