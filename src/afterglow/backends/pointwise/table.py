"""The table of expressions, and the conversions around each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from afterglow.backends.pointwise.conversion import to_float
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.graph import Op
from afterglow.ops.quantization import Quantizing
from afterglow.types.dtype import DType, Kind, f32, i8

Expression = Callable[..., Any]
"""Takes an op and a value for each operand, all of one number of lanes; returns the result."""
ExpressionT = TypeVar("ExpressionT", bound=Expression)

_EXPRESSIONS: dict[type[Op], Expression] = {}
_WHOLE_BYTES: set[type[Op]] = set()
"""Ops that have no expression of integers below a byte."""


def expression(
    *classes: type[Op], whole_bytes: bool = False
) -> Callable[[ExpressionT], ExpressionT]:
    """Declare how ops are computed.

    The operands hold f32, f64, booleans or integers of 8 bits and more, whatever the op was given,
    unless it only moves elements; the result may hold anything that converts to its type. If
    `whole_bytes`, integers of fewer bits are refused.
    """

    def declare(function: ExpressionT) -> ExpressionT:
        _EXPRESSIONS.update(dict.fromkeys(classes, function))
        if whole_bytes:
            _WHOLE_BYTES.update(classes)
        return function

    return declare


def has_expression(op_class: type[Op]) -> bool:
    """Whether some ops of the class can be computed element by element."""
    return op_class in _EXPRESSIONS


def supports(op: Op, result: DType, operands: Sequence[DType | None]) -> bool:
    """Whether the op can be computed on these element types."""
    if not has_expression(type(op)) or (isinstance(op, Quantizing) and op.block_size):
        return False
    dtypes = [result, *(dtype for dtype in operands if dtype is not None)]
    if any(dtype.kind in (Kind.COMPLEX, Kind.STRING) for dtype in dtypes):
        return False
    return type(op) not in _WHOLE_BYTES or not any(map(_is_below_byte, dtypes))


def compute(op: Op, result: DType, operands: Sequence[ValueT | None]) -> ValueT:
    """The op's result, of the element type `result`; None stands for an operand left out."""
    if not op.moves_only:
        operands = [None if x is None else _computable(x) for x in operands]
    value: ValueT = _EXPRESSIONS[type(op)](op, *operands)
    return to_float(value, result) if result.is_float else convert(value, result)


def _computable(x: ValueT) -> ValueT:
    """The same numbers as a type that has arithmetic."""
    if x.dtype.is_narrow_float:
        return convert(x, f32)
    return convert(x, i8) if _is_below_byte(x.dtype) else x


def _is_below_byte(dtype: DType) -> bool:
    return dtype.is_integer and dtype.bits < 8
