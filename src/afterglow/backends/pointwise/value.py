"""Values whose elements are known only when code runs: what every code generator has of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from operator import attrgetter
from typing import NoReturn, Self, TypeVar

from afterglow.types.dtype import DType, boolean


class Value(ABC):
    """A value of `lanes` elements; one lane is a scalar.

    Beside a vector, a scalar and a Python number stand for a vector with that number in all lanes.
    """

    __slots__ = ()

    dtype: DType
    lanes: int
    constant: float | None
    """The number itself where it is known while the code is being written."""

    @abstractmethod
    def of_type(self, dtype: DType, number: float) -> Self:
        """A constant of a type, of as many lanes as this value has."""

    @abstractmethod
    def splat(self, lanes: int) -> Self:
        """A vector with this scalar in all lanes."""

    @abstractmethod
    def combined(self, symbol: str, other: Self | float, *, swapped: bool = False) -> Self:
        """An operator applied to this value and another; `swapped`, this is the right one."""

    @abstractmethod
    def negated(self) -> Self:
        """A float with its sign turned."""

    def like(self, number: float) -> Self:
        """A constant of the same type and as many lanes."""
        return self.of_type(self.dtype, number)

    def __add__(self, other: Self | float) -> Self:
        return self.combined("+", other)

    def __radd__(self, other: Self | float) -> Self:
        return self.combined("+", other)

    def __sub__(self, other: Self | float) -> Self:
        return self.combined("-", other)

    def __rsub__(self, other: Self | float) -> Self:
        return self.combined("-", other, swapped=True)

    def __mul__(self, other: Self | float) -> Self:
        return self.combined("*", other)

    def __rmul__(self, other: Self | float) -> Self:
        return self.combined("*", other)

    def __truediv__(self, other: Self | float) -> Self:
        return self.combined("/", other)

    def __rtruediv__(self, other: Self | float) -> Self:
        return self.combined("/", other, swapped=True)

    def __and__(self, other: Self | float) -> Self:
        return self.combined("&", other)

    def __or__(self, other: Self | float) -> Self:
        return self.combined("|", other)

    def __xor__(self, other: Self | float) -> Self:
        return self.combined("^", other)

    def __lshift__(self, other: Self | float) -> Self:
        return self.combined("<<", other)

    def __rshift__(self, other: Self | float) -> Self:
        return self.combined(">>", other)

    def __lt__(self, other: Self | float) -> Self:
        return self.combined("<", other)

    def __le__(self, other: Self | float) -> Self:
        return self.combined("<=", other)

    def __gt__(self, other: Self | float) -> Self:
        return self.combined(">", other)

    def __ge__(self, other: Self | float) -> Self:
        return self.combined(">=", other)

    def __neg__(self) -> Self:
        return self.negated() if self.dtype.is_float else 0 - self

    def __invert__(self) -> Self:
        return self ^ (1 if self.dtype is boolean else -1)

    def __bool__(self) -> NoReturn:
        raise TypeError("its value is known only when the code runs: use select, when or branch")


ValueT = TypeVar("ValueT", bound=Value)


def unify(*operands: ValueT | float) -> list[ValueT]:
    """Operands of one type: numbers become constants, scalars vectors, and types are checked."""
    values = [operand for operand in operands if isinstance(operand, Value)]
    model = max(values, key=_lanes)
    dtype, lanes = model.dtype, model.lanes
    if len(values) == len(operands):
        found = [value if value.lanes == lanes else value.splat(lanes) for value in values]
    else:
        found = [
            operand.splat(lanes) if isinstance(operand, Value) else model.like(operand)
            for operand in operands
        ]
    for value in found:
        if value.dtype is not dtype:
            kinds = ", ".join(str(value.dtype) for value in found)
            raise TypeError(f"the element types differ: {kinds}")
    return found


_lanes = attrgetter("lanes")


def folded(symbol: str, lhs: ValueT, rhs: ValueT) -> ValueT | None:
    """The result of an operator, if it is known now: kernels write index arithmetic freely."""
    if not lhs.dtype.is_integer or rhs.constant is None:
        swapped = symbol in "+*" and lhs.dtype.is_integer and lhs.constant is not None
        return folded(symbol, rhs, lhs) if swapped else None
    number = int(rhs.constant)
    if lhs.constant is not None and symbol in "+-*":
        known = int(lhs.constant)
        result = {"+": known + number, "-": known - number, "*": known * number}[symbol]
        return lhs.like(_wrapped(result, lhs.dtype))
    if number == 0 and symbol in ("+", "-", "|", "^", "<<", ">>"):
        return lhs
    if number == 1 and symbol == "*":
        return lhs
    return lhs.like(0) if number == 0 and symbol in "&*" else None


def _wrapped(number: int, dtype: DType) -> int:
    low, _ = dtype.limits
    return (number - low) % (1 << dtype.bits) + low
