"""What an importer sees of a TFLite op: options by the names of the schema, and quantization.

Options are attributes in snake_case, enums by their names. How operand k is quantized is in the
attributes `x<k>.scale`, `x<k>.zero_point` and `x<k>.axis`, of result k in those of `y<k>`; without
a scale it is not. `x.types` and `y.types` have the element types of operands and results, by our
names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.model import AttributeDef, AttributeKind
from afterglow.frontends.tflite.elements import Quantization, dtype_of
from afterglow.graph import Value
from afterglow.support.errors import ModelError
from afterglow.types import DType
from afterglow.types.dtype import dtype_named, i64

OPERAND_TYPES = "x.types"
"""The attribute that has the element types of the operands; `-` for one that is not known."""

RESULT_TYPES = "y.types"
"""The same of the results."""

VERSION = "op.version"
"""The attribute that has the version of a custom op."""


def quantization_attributes(
    prefix: str, quantization: Quantization | None
) -> dict[str, AttributeDef]:
    """How a tensor is quantized, as attributes of a node."""
    if quantization is None:
        return {}
    return {
        f"{prefix}.scale": AttributeDef(AttributeKind.FLOATS, quantization.scales),
        f"{prefix}.zero_point": AttributeDef(AttributeKind.INTS, quantization.zero_points),
        f"{prefix}.axis": AttributeDef(AttributeKind.INT, quantization.axis),
    }


class TfliteNode(NodeContext):
    """One op of a TFLite file being imported."""

    def quantization(self, index: int) -> Quantization | None:
        """How operand `index` is quantized; None if it is not."""
        return self._quantization(f"x{index}")

    def result_quantization(self, index: int = 0) -> Quantization | None:
        """How result `index` is quantized; None if it is not."""
        return self._quantization(f"y{index}")

    def _quantization(self, prefix: str) -> Quantization | None:
        scales = self.attribute(f"{prefix}.scale")
        if scales is None:
            return None
        zero_points, axis = self.integers(f"{prefix}.zero_point"), self.integer(f"{prefix}.axis")
        return Quantization(tuple(map(float, scales)), zero_points, axis)

    def result_type(self, index: int = 0) -> DType:
        """The element type that the file declares for a result."""
        names = self.texts(RESULT_TYPES, ())
        if index >= len(names) or names[index] == "-":
            raise ModelError(f"result {index} has no element type")
        return dtype_named(names[index])

    def flag(self, name: str) -> bool:
        """A truth value among the options; False if it is not set."""
        return bool(self.attribute(name, False))

    def count(self, name: str, default: int = 0) -> int:
        """An integer among the options; the default if it is not set."""
        return int(self.attribute(name, default))

    def real(self, name: str, default: float = 0.0) -> float:
        """A number among the options; the default if it is not set."""
        return float(self.attribute(name, default))

    def word(self, name: str, default: str) -> str:
        """The name of an enum's value among the options; the default if it is not set."""
        return str(self.attribute(name, default))

    def element_type(self, name: str) -> DType:
        """An element type among the options."""
        return dtype_of(self.word(name, "FLOAT32"))

    def full(self, number: Any, dtype: DType) -> Value:
        """A constant without axes."""
        try:
            return self.constant(np.array(number, dtype.numpy))
        except (OverflowError, ValueError):
            raise ModelError(f"{number} is no number of {dtype}") from None

    def integers_of(self, values: Sequence[int], shape: Sequence[int], dtype: DType = i64) -> Value:
        """A tensor of integers that may be ranged extents, if they fit the element type."""
        try:
            return super().integers_of(values, shape, dtype)
        except OverflowError:
            raise ModelError(f"{tuple(values)} are no numbers of {dtype}") from None

    def axes(self, index: int, rank: int) -> tuple[int, ...]:
        """Axes that operand `index` holds, counted from the front, each once."""
        return tuple(sorted({self.axis(each, rank) for each in self.known_ints(index)}))

    def axis(self, axis: int, rank: int) -> int:
        """An axis, counted from the front."""
        if not -rank <= axis < rank:
            raise ModelError(f"there is no axis {axis}, the operand has {rank} axes")
        return axis % rank if rank else 0
