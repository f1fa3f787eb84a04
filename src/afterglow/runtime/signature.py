"""What a model takes and gives."""

from __future__ import annotations

from dataclasses import field

from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import DType, Quantization, TensorType
from afterglow.types.extent import is_ranged


@dataclass(frozen=True)
class TensorInfo:
    """Name, element type and shape of an input or output.

    A free dimension is given by its name, or None if it has none; the shape is None if even the
    rank is free, the element type if it is no tensor, or an output that says nothing of it.
    """

    name: str
    dtype: DType | None
    shape: tuple[int | str | None, ...] | None
    quantization: Quantization | None = field(default=None, repr=False)
    """What integers stand for, if they stand for real numbers."""

    @staticmethod
    def of(name: str, type: TensorType) -> TensorInfo:
        """What a caller is told of a type; a ranged extent is shown as its expression."""
        shape = (str(extent) if is_ranged(extent) else extent for extent in type.shape)
        return TensorInfo(name, type.dtype, tuple(shape), type.quantization)

    @property
    def is_exact(self) -> bool:
        """Whether every extent is known."""
        return self.shape is not None and all(isinstance(extent, int) for extent in self.shape)

    @property
    def exact_shape(self) -> tuple[int, ...]:
        """The shape, if every extent is known."""
        assert self.is_exact
        return tuple(extent for extent in self.shape or () if isinstance(extent, int))

    def __str__(self) -> str:
        shape = self.shape if self.shape is not None else ("…",)
        extents = ", ".join("?" if extent is None else str(extent) for extent in shape)
        suffix = f"; {self.quantization}" if self.quantization else ""
        return f"{self.name}: {self.dtype or '?'}[{extents}{suffix}]"


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a model."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
