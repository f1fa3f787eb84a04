"""Comparisons, logic and bits of PyTorch."""

from __future__ import annotations

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.torch.importers.elementwise import name_of
from afterglow.frontends.torch.importers.operands import as_result, in_common, number
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Op, Value
from afterglow.ops import elementwise as e
from afterglow.types.dtype import boolean

_COMPARISONS: dict[str, type[Op]] = {"eq": e.Equal, "lt": e.Less, "le": e.LessEqual}
_SWAPPED: dict[str, type[Op]] = {"gt": e.Less, "ge": e.LessEqual}
_BITWISE: dict[str, type[Op]] = {
    "bitwise_and": e.And,
    "bitwise_or": e.Or,
    "bitwise_xor": e.Xor,
    "logical_and": e.And,
    "logical_or": e.Or,
    "logical_xor": e.Xor,
}
_SHIFTS: dict[str, type[Op]] = {
    "bitwise_left_shift": e.ShiftLeft,
    "bitwise_right_shift": e.ShiftRight,
    "__lshift__": e.ShiftLeft,
    "__rshift__": e.ShiftRight,
}


def _overloads(names: dict[str, type[Op]]) -> list[str]:
    return [f"{name}.{overload}" for name in names for overload in ("Tensor", "Scalar")]


@aten(*_overloads(_COMPARISONS))
def comparison(n: TorchNode) -> Value:
    """Of operands of the type that PyTorch compares them in."""
    return n.emit(_COMPARISONS[name_of(n)](), *in_common(n, "self", "other"))


@aten(*_overloads(_SWAPPED))
def swapped(n: TorchNode) -> Value:
    """a > b is b < a."""
    lhs, rhs = in_common(n, "self", "other")
    return n.emit(_SWAPPED[name_of(n)](), rhs, lhs)


@aten("ne.Tensor", "ne.Scalar")
def not_equal(n: TorchNode) -> Value:
    """NaN differs from itself."""
    return n.emit(e.Not(), n.emit(e.Equal(), *in_common(n, "self", "other")))


@aten("isnan")
def isnan(n: TorchNode) -> Value:
    """Integers are numbers."""
    x = n.value("self")
    return n.emit(e.IsNaN(), x) if x.type.dtype.is_float else always(n, x, answer=False)


@aten("isinf", "isposinf", "isneginf")
def isinf(n: TorchNode) -> Value:
    """Of either sign, or of one."""
    x, name = n.value("self"), name_of(n)
    if not x.type.dtype.is_float:
        return always(n, x, answer=False)
    return n.emit(e.IsInf(positive=name != "isneginf", negative=name != "isposinf"), x)


@aten("isfinite")
def isfinite(n: TorchNode) -> Value:
    """Neither infinite nor NaN."""
    x = n.value("self")
    if not x.type.dtype.is_float:
        return always(n, x, answer=True)
    return n.emit(e.Not(), n.emit(e.Or(), n.emit(e.IsInf(), x), n.emit(e.IsNaN(), x)))


def always(n: TorchNode, x: Value, *, answer: bool) -> Value:
    """One truth value for each element."""
    equal = n.emit(e.Equal(), x, x)
    return n.emit(e.Or() if answer else e.And(), equal, number(n, answer, boolean))


@aten("logical_not")
def logical_not(n: TorchNode) -> Value:
    """Whether it is zero."""
    return n.emit(e.Not(), as_dtype(n, n.value("self"), boolean))


@aten("bitwise_not")
def bitwise_not(n: TorchNode) -> Value:
    """The complement."""
    return n.emit(e.Not(), n.value("self"))


@aten(
    *(f"{name}.{overload}" for name in _BITWISE for overload in ("Tensor", "Scalar", "default")),
    *(f"{name}.Scalar_Tensor" for name in _BITWISE),
)
def bitwise(n: TorchNode) -> Value:
    """Bit by bit; logic asks first whether the operands differ from zero."""
    return n.emit(_BITWISE[name_of(n)](), *as_result(n, "self", "other"))


@aten(
    *(f"{name}.{how}" for name in _SHIFTS for how in ("Tensor", "Scalar", "Tensor_Scalar")),
    "bitwise_left_shift.Scalar_Tensor",
    "bitwise_right_shift.Scalar_Tensor",
)
def shift(n: TorchNode) -> Value:
    """By a number of bits; by more than there are, all of them."""
    x, count = as_result(n, "self", "other")
    op, dtype = _SHIFTS[name_of(n)](), x.type.dtype
    last = number(n, dtype.bits - 1, dtype)
    outside = n.emit(
        e.Or(), n.emit(e.Less(), last, count), n.emit(e.Less(), count, number(n, 0, dtype))
    )
    inside = n.emit(e.Where(), outside, last, count)
    shifted = n.emit(op, x, inside)
    if isinstance(op, e.ShiftRight) and dtype.is_signed:
        return shifted
    return n.emit(e.Where(), outside, number(n, 0, dtype), shifted)
