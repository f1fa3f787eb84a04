"""Pieces of patterns that span several nodes: operand orders, scalars, casts, and what is inside.

Conversions between floats are looked through everywhere: models in half precision have them in
the middle of a formula, where they only lose digits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from afterglow.graph import Builder, Constant, Node, Op, Value
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Div, Mul, Neg, Sub
from afterglow.ops.functions import Reciprocal, Sqrt
from afterglow.ops.power import Pow
from afterglow.transforms.matching.values import escapes
from afterglow.types import DType
from afterglow.types import dtype as d

ARITHMETIC = (Add, Sub, Mul, Div, Neg, Pow, Sqrt, Reciprocal)
"""The ops of which formulas are made."""
LOOK_BACK = 6
"""How many nodes in a row a formula may have."""
MOST_NODES = 32
"""How many nodes it may have in all."""


def uncast(value: Value) -> Value:
    """The value before conversions from one float type to another."""
    while value.producer is not None and isinstance(value.producer.op, Cast):
        (x,) = value.producer.given
        if not (x.type.dtype.is_float and value.type.dtype.is_float):
            break
        value = x
    return value


def scalar_of(value: Value) -> float | None:
    """The number that a constant of one element holds, whatever its rank."""
    if value.producer is not None and isinstance(value.producer.op, Cast):
        (value,) = value.producer.given
    if not isinstance(value, Constant) or value.type.size != 1:
        return None
    known = value.type.dtype.is_float or value.type.dtype.is_integer
    return float(value.data.reshape(())[()]) if known else None


def maker(value: Value | None, *kinds: type[Op]) -> Node | None:
    """The node that made a value, conversions apart, if its op is of one of these kinds."""
    node = None if value is None else uncast(value).producer
    return node if node is not None and isinstance(node.op, kinds) else None


def orders(node: Node) -> Iterator[tuple[Value, Value]]:
    """The two operands of a commutative op, in both orders."""
    lhs, rhs = node.given
    yield lhs, rhs
    yield rhs, lhs


def ingredients(value: Value, depth: int = LOOK_BACK) -> Iterator[Value]:
    """What arithmetic made a value from, conversions apart, nearest first; no scalars.

    Also those that were themselves made by arithmetic, and the value itself.
    """
    pending = {uncast(value): None}
    seen = {*pending}
    for left in range(depth, -1, -1):
        yield from pending
        operands = [v for found in pending for v in _made_from(found)] if left else []
        room = MOST_NODES - len(seen)
        pending = dict.fromkeys([v for v in operands if v not in seen][:room])
        seen.update(pending)


def _made_from(value: Value) -> Iterator[Value]:
    """What one node of arithmetic took, other than scalars."""
    node = value.producer
    if node is not None and isinstance(node.op, ARITHMETIC):
        for operand in node.given:
            if scalar_of(operand) is None:
                yield uncast(operand)


def serves_only(node: Node, leaves: Collection[Value]) -> bool:
    """Whether what lies between the leaves and the node is needed for nothing else.

    A conversion of a leaf may have other users: it is kept.
    """
    inside = {node}
    pending = [node]
    while pending:
        for value in pending.pop().given:
            producer = value.producer
            if producer is None or producer in inside or _is_leaf(value, leaves):
                continue
            if len(inside) > MOST_NODES:
                return False
            inside.add(producer)
            pending.append(producer)
    return all(_stays_inside(inner, inside) for inner in inside if inner is not node)


def _is_leaf(value: Value, leaves: Collection[Value]) -> bool:
    return value in leaves or uncast(value) in leaves


def _stays_inside(node: Node, inside: set[Node]) -> bool:
    return all(
        result.use_count <= MOST_NODES
        and not escapes(result)
        and all(user in inside or _is_dead(user) for user in result.users)
        for result in node.results
    )


def _is_dead(node: Node) -> bool:
    """Whether it is dead, and only not erased yet."""
    return node.op.pure and not any(r.use_count or escapes(r) for r in node.results)


def emit_as(b: Builder, x: Value, dtype: DType) -> Value:
    """`x` with elements of another type."""
    return x if x.type.dtype is dtype else b.emit(Cast(dtype), x)


def is_near(number: float, wanted: float, dtype: DType) -> bool:
    """Whether a model in that precision may have written `number` for `wanted`."""
    return abs(number - wanted) <= TOLERANCE.get(dtype, 1e-4) * abs(wanted)


TOLERANCE: dict[DType, float] = {d.f64: 1e-6, d.f16: 2e-3, d.bf16: 1e-2}
"""How far a constant may be off: what a type rounds away, or so that a few digits are enough."""
