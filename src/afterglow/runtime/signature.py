"""What a model takes and gives."""

from __future__ import annotations

from dataclasses import dataclass

from afterglow.types import DType


@dataclass(frozen=True)
class TensorInfo:
    """Name, element type and shape of an input or output.

    A free dimension is given by its name, or None if it has none; the shape is None if even the
    rank is free, the element type if it is no tensor, or an output that says nothing of it.
    """

    name: str
    dtype: DType | None
    shape: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        shape = self.shape if self.shape is not None else ("…",)
        extents = ", ".join("?" if extent is None else str(extent) for extent in shape)
        return f"{self.name}: {self.dtype or '?'}[{extents}]"


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a model."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
