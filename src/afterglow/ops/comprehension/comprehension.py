"""Tensor comprehensions: ops that are written as mathematics, in index notation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from afterglow.graph import Builder, Function, Module, Op, Value, op
from afterglow.ops.comprehension.element_types import ElementTypes, number_type
from afterglow.ops.comprehension.lowering import StatementLowering
from afterglow.ops.comprehension.meaning import evaluate_statement
from afterglow.ops.comprehension.ranges import Range, ranges_of
from afterglow.ops.comprehension.syntax import parse_notation, with_attributes
from afterglow.ops.comprehension.tree import Notation, Statement
from afterglow.ops.rules import require
from afterglow.support.errors import ParseError, TypeRuleError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import DTYPES
from afterglow.types.tensor import ExtentError

OperandT = TypeVar("OperandT")


@op("comprehension")
class Comprehension(Op):
    """What a text in index notation says: `o[i, j] = sum(k) a[i, k] * b[k, j]`.

    Operands are the tensors that the text reads but does not define, in the order in which it first
    reads them; the last statement defines the result.
    """

    expands = True
    text: str

    def infer(self, *operands: TensorType) -> TensorType:
        """Ranges of indices follow from shapes, so that no index leaves a tensor."""
        *_, last = self._statements(operands)
        return last.type

    def evaluate(self, *operands: Array) -> Array:
        """Each statement on the values of all of its indices at once."""
        types = [TensorType.of(operand) for operand in operands]
        tensors: dict[str, Array] = self._named(operands)
        for step in self._statements(types):
            target = step.statement.target
            tensors[target] = evaluate_statement(
                step.statement, step.ranges, tensors, step.number.numpy
            )
        return tensors[target]

    def lower(self, b: Builder, *operands: Value) -> Value:
        """Matrix products, convolutions and pools where it has them, else fused reductions."""
        tensors: dict[str, Value] = self._named(operands)
        for step in self._statements([operand.type for operand in operands]):
            lowering = StatementLowering(b, step.statement, step.ranges, tensors, step.number, {})
            tensors[step.statement.target] = lowering.result()
        return tensors[step.statement.target]

    def module(self, shapes: Mapping[str, Sequence[int]], dtype: str = "f32") -> Module:
        """A module that computes it, with an input for each operand."""
        notation = parse_notation(self.text)
        if {*shapes} != {*notation.operands}:
            wanted, got = ", ".join(notation.operands), ", ".join(shapes)
            raise UsageError(f"shapes must be given for {wanted}, got {got or 'none'}")
        function = Function("main")
        types = {name: _type_of(name, shape, dtype) for name, shape in shapes.items()}
        inputs = [function.input(name, types[name]) for name in notation.operands]
        target = notation.statements[-1].target
        function.output(target, Builder(function).emit(self, *inputs, name=target))
        return function.module

    @property
    def operands(self) -> tuple[str, ...]:
        """The names of the tensors that the text reads, in the order of operands."""
        return parse_notation(self.text).operands

    def _named(self, operands: Sequence[OperandT]) -> dict[str, OperandT]:
        return dict(zip(self.operands, operands, strict=True))

    def _statements(self, operands: Sequence[TensorType]) -> Iterator[_Step]:
        """The statements, one after the other, with what follows from the types of operands."""
        try:
            notation = parse_notation(self.text)
        except ParseError as error:
            raise TypeRuleError(error.what, excerpt=error.excerpt, help=error.help) from None
        names = notation.operands
        require(
            len(names) == len(operands),
            f"the text reads {len(names)} operands ({', '.join(names)}), got {len(operands)}",
        )
        types = dict(zip(names, operands, strict=True))
        for name, type in types.items():
            require(
                type.quantization is None and (type.dtype.is_number or type.dtype.name == "bool"),
                f"{name} must hold numbers or booleans, got {type}",
            )
        return _steps(notation, types)


@dataclass(frozen=True)
class _Step:
    """A statement with the ranges of its indices and the type of its result."""

    statement: Statement
    ranges: Mapping[str, Range]
    type: TensorType
    number: DType


def _steps(notation: Notation, types: dict[str, TensorType]) -> Iterator[_Step]:
    number = number_type(notation, types)
    for statement in notation.statements:
        shapes = {name: type.shape for name, type in types.items()}
        ranges = ranges_of(notation.text, statement, shapes)
        dtypes = {name: type.dtype for name, type in types.items()}
        dtype = ElementTypes(notation.text, number, dtypes).of(statement.value)
        shape = tuple(ranges[name].extent for name in statement.free)
        types[statement.target] = TensorType(dtype, shape)
        yield _Step(statement, ranges, types[statement.target], number)


def _type_of(name: str, shape: Sequence[int], dtype: str) -> TensorType:
    if dtype not in DTYPES:
        raise UsageError(
            f"there is no element type {dtype!r}", help=f"there are {', '.join(DTYPES)}"
        )
    try:
        return TensorType(DTYPES[dtype], tuple(shape))
    except (ExtentError, TypeError):
        raise UsageError(f"{name} cannot have the shape {shape!r}") from None


def comprehension(text: str, **attributes: float) -> Comprehension:
    """An op that is written in index notation; `attributes` are numbers that the text names.

    >>> comprehension("o[i] = sum(k) a[i, k] * b[scale * k]", scale=2)
    """
    notation: Any = text
    if not isinstance(notation, str):
        raise UsageError(f"index notation is a text, got {text!r}")
    for name, value in attributes.items():
        given: Any = value
        if isinstance(given, bool) or not isinstance(given, (int, float)):
            raise UsageError(f"attribute {name!r} must be a number, got {value!r}")
    made = with_attributes(text, attributes)
    parse_notation(made)
    return Comprehension(made)
