"""Arithmetic of sizes: whole numbers that follow from extents, or from data."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import integer_constant
from afterglow.frontends.definition.symbolic import whole
from afterglow.frontends.torch.importers.elementwise import floor_quotient, truncated
from afterglow.frontends.torch.importers.operands import axis_of, number
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Op, Value
from afterglow.ops import elementwise as e
from afterglow.ops import functions as f
from afterglow.ops.power import Pow
from afterglow.support.errors import UnsupportedError
from afterglow.types.dtype import boolean, f64, i64
from afterglow.types.extent import larger_extent, smaller_extent

_EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "sym_max": larger_extent,
    "sym_min": smaller_extent,
}
"""What is computed at once where both operands are whole numbers that follow from extents."""

_OPS: dict[str, type[Op]] = {
    "add": e.Add,
    "sub": e.Sub,
    "mul": e.Mul,
    "mod": e.Mod,
    "pow": Pow,
    "truediv": e.Div,
    "sym_max": e.Max,
    "sym_min": e.Min,
    "eq": e.Equal,
    "lt": e.Less,
    "le": e.LessEqual,
    "and_": e.And,
    "or_": e.Or,
}
_SWAPPED: dict[str, type[Op]] = {"gt": e.Less, "ge": e.LessEqual}


@aten("sym_size.int", "size.int")
def size(n: TorchNode) -> Value:
    """An extent."""
    x = n.value("self")
    return integer_constant(n, x.type.shape[axis_of(n, "dim", x.type.rank)])


@aten("sym_numel", "numel")
def numel(n: TorchNode) -> Value:
    """The number of elements."""
    return integer_constant(n, n.value("self").type.size)


@aten(*_EXACT, *_OPS, *_SWAPPED, "ne", namespace="_operator")
def arithmetic(n: TorchNode) -> Value:
    """An operator of Python."""
    return _applied(n, n.proto.op_type, n.argument("a"), n.argument("b"))


@aten("sym_max", "sym_min", namespace="torch")
def extreme(n: TorchNode) -> Value:
    """The larger or the smaller."""
    return _applied(n, n.proto.op_type, n.argument("a"), n.argument("b"))


@aten("sym_sum", namespace="torch")
def total(n: TorchNode) -> Value:
    """The sum of several."""
    first, *others = n.argument("args")
    found = first if isinstance(first, Value) else _value(n, first)
    for other in others:
        found = _applied(n, "add", found, _plain(other))
    return found


def _plain(item: Any) -> Any:
    return int(item) if isinstance(item, str) else item


def _applied(n: TorchNode, name: str, a: Any, b: Any) -> Value:
    exact = [_exact(n, each) for each in (a, b)]
    if name in _EXACT and None not in exact:
        return integer_constant(n, _EXACT[name](*exact))
    lhs, rhs = _value(n, a), _value(n, b)
    kinds = {lhs.type.dtype, rhs.type.dtype}
    if name == "truediv" or (f64 in kinds and len(kinds) > 1):
        lhs, rhs = as_dtype(n, lhs, f64), as_dtype(n, rhs, f64)
    elif boolean in kinds and len(kinds) > 1:
        lhs, rhs = as_dtype(n, lhs, i64), as_dtype(n, rhs, i64)
    if name == "floordiv":
        return floor_quotient(n, lhs, rhs)
    if name == "ne":
        return n.emit(e.Not(), n.emit(e.Equal(), lhs, rhs))
    if name in _SWAPPED:
        return n.emit(_SWAPPED[name](), rhs, lhs)
    return n.emit(_OPS[name](), lhs, rhs)


def _exact(n: TorchNode, given: Any) -> Any:
    """A whole number that may be a ranged extent; None if it is another number, or data."""
    if not isinstance(given, Value):
        return given if isinstance(given, int) and not isinstance(given, bool) else None
    if given.type.dtype is not i64:
        return None
    elements = n.graph.known.symbols_of(given)
    if elements is not None:
        return whole(elements.item())
    known = n.value_if_known(given)
    return None if known is None else int(known)


def _value(n: TorchNode, given: Any) -> Value:
    if isinstance(given, Value):
        return given
    dtype = boolean if isinstance(given, bool) else i64 if isinstance(given, int) else f64
    return number(n, given, dtype)


@aten("neg", "pos", "abs", "not_", namespace="_operator")
def unary(n: TorchNode) -> Value:
    """An operator of one operand."""
    x, name = n.value("a"), n.proto.op_type
    if name == "pos":
        return x
    if name == "neg":
        return _applied(n, "sub", 0, x)
    return n.emit(e.Not() if name == "not_" else e.Abs(), x)


@aten("sym_float", "sym_int", "sym_not", "sym_sqrt", namespace="torch")
def converted(n: TorchNode) -> Value:
    """A number as another kind of number."""
    x = n.value("a")
    match n.proto.op_type:
        case "sym_float":
            return as_dtype(n, x, f64)
        case "sym_int":
            return as_dtype(n, x, i64)
        case "sym_not":
            return n.emit(e.Not(), x)
    return n.emit(f.Sqrt(), as_dtype(n, x, f64))


@aten("sym_ite", namespace="torch")
def choice(n: TorchNode) -> Value:
    """One of two by a condition."""
    then, other = _value(n, n.argument("t")), _value(n, n.argument("f"))
    return n.emit(e.Where(), n.value("b"), then, other)


_MATH: dict[str, type[Op]] = {
    "ceil": e.Ceil,
    "floor": e.Floor,
    "sqrt": f.Sqrt,
    "exp": f.Exp,
    "log": f.Log,
    "sin": f.Sin,
    "cos": f.Cos,
    "tan": f.Tan,
    "tanh": f.Tanh,
    "atan": f.Atan,
}


@aten(*_MATH, "trunc", namespace="math")
def mathematics(n: TorchNode) -> Value:
    """A function of a number; rounded ones are whole."""
    name = n.proto.op_type
    x = next((n.value(key) for key in ("x", "a") if n.has(key)), None)
    if x is None:
        raise UnsupportedError(f"math.{name} has no operand that is known by name")
    if name in ("ceil", "floor", "trunc") and x.type.dtype is i64:
        return x
    x = as_dtype(n, x, f64)
    found = truncated(n, x) if name == "trunc" else n.emit(_MATH[name](), x)
    return as_dtype(n, found, i64) if name in ("ceil", "floor", "trunc") else found
