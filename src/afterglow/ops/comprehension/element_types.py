"""The element types of the values in a text: those of the ops that its functions stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afterglow.graph import Op
from afterglow.ops.comprehension.ranges import fault
from afterglow.ops.comprehension.tree import (
    Access,
    Call,
    Expression,
    Index,
    Notation,
    Number,
    Reduction,
    accesses,
)
from afterglow.ops.comprehension.vocabulary import REDUCTIONS, apply_function
from afterglow.support.errors import TypeRuleError
from afterglow.types import TensorType
from afterglow.types.dtype import DType, f32


def number_type(notation: Notation, operands: Mapping[str, TensorType]) -> DType:
    """The type of literals and indices: that of all operands that hold numbers."""
    first: Access | None = None
    for statement in notation.statements:
        for access in accesses(statement.value):
            type = operands.get(access.tensor)
            if type is None or not type.dtype.is_number:
                continue
            first = first or access
            if type.dtype is not operands[first.tensor].dtype:
                raise fault(
                    notation.text,
                    f"{first.tensor} holds {operands[first.tensor].dtype}, "
                    f"{access.tensor} holds {type.dtype}",
                    access.at,
                    help="cast one of them",
                )
    return f32 if first is None else operands[first.tensor].dtype


class ElementTypes:
    """Finds the element types of expressions; `dtypes` has those of the tensors known so far."""

    def __init__(self, text: str, number: DType, dtypes: Mapping[str, DType]) -> None:
        self.text = text
        self.number = number
        self.dtypes = dtypes

    def of(self, value: Expression) -> DType:
        """The type of a value; an error shows the place where types do not fit."""
        match value:
            case Number(number):
                if not self.number.is_float and number != int(number):
                    raise fault(self.text, f"{number} is not of type {self.number}", value.at)
                return self.number
            case Index():
                return self.number
            case Access(tensor):
                return self.dtypes[tensor]
            case Call(function, arguments):
                return self._applied(value.at, function, [self.of(each) for each in arguments])
            case Reduction(kind, _, body):
                return self._inferred(value.at, REDUCTIONS[kind]((0,)), self.of(body), shape=(1,))

    def _applied(self, at: int, function: str, arguments: list[DType]) -> DType:
        def apply(op: Op, *operands: DType) -> DType:
            return self._inferred(at, op, *operands)

        found: Any = apply_function(function, apply, *arguments)
        assert isinstance(found, DType)
        return found

    def _inferred(self, at: int, op: Op, *operands: DType, shape: tuple[int, ...] = ()) -> DType:
        try:
            found = op.infer(*(TensorType(dtype, shape) for dtype in operands))
        except TypeRuleError as error:
            raise fault(self.text, f"{op.mnemonic}: {error.what}", at) from None
        assert isinstance(found, TensorType)
        return found.dtype
