"""Numbers in registers: a scalar or a vector, with the operators of arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cpu.llvm.emitter.code import Code
from afterglow.backends.cpu.llvm.types import is_arithmetic, literal, spell
from afterglow.backends.pointwise import value as pointwise
from afterglow.types.dtype import DType, boolean, i32
from afterglow.types.extent import RangedExtent

_FLOAT, _SIGNED, _UNSIGNED = 0, 1, 2
_OPCODES = {
    "+": ("fadd", "add", "add"),
    "-": ("fsub", "sub", "sub"),
    "*": ("fmul", "mul", "mul"),
    "/": ("fdiv", "", ""),
    "&": ("", "and", "and"),
    "|": ("", "or", "or"),
    "^": ("", "xor", "xor"),
    "<<": ("", "shl", "shl"),
    ">>": ("", "ashr", "lshr"),
    "<": ("fcmp olt", "icmp slt", "icmp ult"),
    "<=": ("fcmp ole", "icmp sle", "icmp ule"),
    ">": ("fcmp ogt", "icmp sgt", "icmp ugt"),
    ">=": ("fcmp oge", "icmp sge", "icmp uge"),
    "==": ("fcmp oeq", "icmp eq", "icmp eq"),
    "!=": ("fcmp une", "icmp ne", "icmp ne"),
}
"""Of floats, of signed and of unsigned integers; a comparison with NaN is false, but for `!=`."""
_COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}
_LOGIC = {"&", "|", "^", "==", "!="}


class Value(pointwise.Value):
    """A value in registers, by LLVM's name for it."""

    __slots__ = ("code", "constant", "dtype", "lanes", "scalar", "text")

    def __init__(
        self, code: Code, dtype: DType, lanes: int, text: str, constant: float | None = None
    ) -> None:
        self.code = code
        self.dtype = dtype
        self.lanes = lanes
        self.text = text
        self.constant = constant
        self.scalar: Value | None = None
        """The number that is in all lanes, if it was splat."""

    @staticmethod
    def of(code: Code, dtype: DType, number: float, lanes: int = 1) -> Value:
        """A constant, the same in all lanes; a ranged extent is one for as long as a run lasts."""
        if isinstance(number, RangedExtent):
            return code.extent_value(number, dtype).splat(lanes)
        return Value(code, dtype, lanes, literal(dtype, number, lanes), number)

    @property
    def type(self) -> str:
        """LLVM's type of it."""
        return spell(self.dtype, self.lanes)

    @property
    def typed(self) -> str:
        """As an operand whose type must be said."""
        return f"{spell(self.dtype, self.lanes)} {self.text}"

    def of_type(self, dtype: DType, number: float) -> Value:
        """See the base."""
        return Value.of(self.code, dtype, number, self.lanes)

    def derive(self, text: str, dtype: DType | None = None, lanes: int | None = None) -> Value:
        """The result of an instruction; what is not said is as in this value."""
        dtype, lanes = dtype or self.dtype, lanes or self.lanes
        return Value(self.code, dtype, lanes, self.code.define(text))

    def splat(self, lanes: int) -> Value:
        """See the base."""
        if lanes == self.lanes:
            return self
        if self.lanes != 1:
            raise TypeError(f"a vector of {self.lanes} lanes does not stretch to {lanes}")
        if self.constant is not None:
            return Value.of(self.code, self.dtype, self.constant, lanes)
        wide = spell(self.dtype, lanes)
        first = self.code.define(f"insertelement {wide} poison, {self.typed}, i64 0")
        everywhere = f"<{lanes} x {spell(i32)}> zeroinitializer"
        spread = self.derive(
            f"shufflevector {wide} {first}, {wide} poison, {everywhere}", lanes=lanes
        )
        spread.scalar = self
        return spread

    def lane(self, index: int | Value) -> Value:
        """One lane, as a scalar."""
        if self.lanes == 1:
            return self
        place = index.typed if isinstance(index, Value) else f"i64 {index}"
        return self.derive(f"extractelement {self.typed}, {place}", lanes=1)

    def combined(self, symbol: str, other: Operand, *, swapped: bool = False) -> Value:
        """See the base."""
        return combine(symbol, other, self) if swapped else combine(symbol, self, other)

    def negated(self) -> Value:
        """See the base."""
        return _checked("-", self).derive(f"fneg {self.typed}")

    def __repr__(self) -> str:
        return f"<{self.typed}>"


Operand = Value | int | float
"""What may stand beside a value."""


def unify(*operands: Operand) -> Sequence[Value]:
    """As of all values: nearly always they are of one type already, or one is a number."""
    first, *others = operands
    if type(first) is Value:
        dtype, lanes = first.dtype, first.lanes
        for other in others:
            if type(other) is not Value or other.dtype is not dtype or other.lanes != lanes:
                break
        else:
            return operands  # type: ignore[return-value]  # as was checked
    return pointwise.unify(*operands)


def equal(lhs: Value, rhs: Operand) -> Value:
    """Where two values are equal; NaN equals nothing."""
    return combine("==", lhs, rhs)


def differ(lhs: Value, rhs: Operand) -> Value:
    """Where two values are not equal; NaN differs from everything, itself included."""
    return combine("!=", lhs, rhs)


def combine(symbol: str, lhs: Operand, rhs: Operand) -> Value:
    """Apply an operator to two operands, one of which is a value."""
    lhs, rhs = unify(lhs, rhs)
    _checked(symbol, lhs)
    known = pointwise.folded(symbol, lhs, rhs)
    if known is not None:
        return known
    opcode = _OPCODES[symbol][_row(lhs.dtype)]
    if not opcode:
        raise TypeError(f"{lhs.dtype} has no operator {symbol}")
    dtype = boolean if symbol in _COMPARISONS else lhs.dtype
    return lhs.derive(f"{opcode} {lhs.typed}, {rhs.text}", dtype)


def _row(dtype: DType) -> int:
    return _FLOAT if dtype.is_float else _SIGNED if dtype.is_signed else _UNSIGNED


def _checked(symbol: str, value: Value) -> Value:
    """The value, if the machine computes with its type."""
    if not is_arithmetic(value.dtype) and not (value.dtype is boolean and symbol in _LOGIC):
        raise TypeError(f"{value.dtype} has no operator {symbol}: convert it first")
    return value
