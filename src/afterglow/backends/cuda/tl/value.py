"""Blocks of numbers in a kernel, with the operators of arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from afterglow.backends.cuda.tl.types import is_arithmetic, literal, number_text, spell
from afterglow.backends.pointwise import value as pointwise
from afterglow.types.dtype import DType, boolean, f32

if TYPE_CHECKING:
    from afterglow.backends.cuda.tl.code import Code

Shape: TypeAlias = tuple[int, ...]
"""The extents of a block; none of a scalar."""
_COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}
_LOGIC = {"&", "|", "^", "==", "!="}


class Value(pointwise.Value):
    """A block of a kernel, by its name or a short text for it; a scalar has no extents.

    Blocks of different shapes are combined as NumPy broadcasts them.
    """

    __slots__ = ("code", "constant", "dtype", "is_index", "lanes", "shape", "text")

    def __init__(
        self,
        code: Code,
        dtype: DType,
        text: str,
        shape: Shape = (),
        constant: float | None = None,
        *,
        is_index: bool = False,
    ) -> None:
        self.code = code
        self.dtype = dtype
        self.text = text
        self.shape = shape
        self.constant = constant
        self.lanes = 1
        self.is_index = is_index
        """Whether it counts elements: its sums and products fit its type, and need no name."""

    @property
    def type(self) -> str:
        """Its element type in Triton's language."""
        return spell(self.dtype)

    def of_type(self, dtype: DType, number: float) -> Value:
        """See the base."""
        index = self.is_index and dtype is self.dtype
        text = number_text(dtype, number) if index else literal(dtype, number)
        return Value(self.code, dtype, text, (), number, is_index=index)

    def derive(self, text: str, dtype: DType | None = None, shape: Shape | None = None) -> Value:
        """The result of an expression; what is not said is as in this value."""
        return self.code.define(text, dtype or self.dtype, self.shape if shape is None else shape)

    def splat(self, lanes: int) -> Value:
        """See the base."""
        if lanes != 1:
            raise TypeError("a block has a shape, not lanes")
        return self

    def combined(self, symbol: str, other: Value | float, *, swapped: bool = False) -> Value:
        """See the base."""
        mine, their = pointwise.unify(self, other)
        lhs, rhs = (their, mine) if swapped else (mine, their)
        if not is_arithmetic(lhs.dtype) and not (lhs.dtype is boolean and symbol in _LOGIC):
            raise TypeError(f"{lhs.dtype} has no operator {symbol}: convert it first")
        known = pointwise.folded(symbol, lhs, rhs)
        if known is not None:
            return known
        shape = broadcast(lhs.shape, rhs.shape)
        if symbol in _COMPARISONS:
            return lhs.derive(f"{lhs.text} {symbol} {rhs.text}", boolean, shape)
        if symbol == "/" and lhs.dtype.is_integer and not lhs.is_index:
            raise TypeError(f"{lhs.dtype} has no operator /")
        if symbol == "/" and lhs.dtype is f32:
            return lhs.derive(f"tl.div_rn({lhs.text}, {rhs.text})", shape=shape)
        text = f"{lhs.text} {'//' if lhs.is_index and symbol == '/' else symbol} {rhs.text}"
        if lhs.is_index and rhs.is_index:
            return Value(self.code, lhs.dtype, f"({text})", shape, is_index=True)
        return lhs.derive(text, shape=shape)

    def negated(self) -> Value:
        """See the base."""
        return self.derive(f"{self.text} * -1.0")  # in Triton, -x is 0 - x

    def __repr__(self) -> str:
        return f"<{self.type}{list(self.shape)} {self.text}>"


def broadcast(*shapes: Shape) -> Shape:
    """The shape of blocks that are combined."""
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    found = tuple(max(extents) for extents in zip(*aligned, strict=True))
    if any(n not in (1, m) for shape in aligned for n, m in zip(shape, found, strict=True)):
        raise TypeError(f"blocks of {', '.join(map(str, shapes))} do not fit each other")
    return found
