"""Laws of logic and of choice."""

from __future__ import annotations

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.elementwise import And, Max, Min, Not, Or, ShiftLeft, ShiftRight, Where, Xor
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.values import is_filled
from afterglow.types.dtype import boolean


@rewrite(And, Or, Xor)
def move_constant_right(node: Node, b: Builder) -> Value | None:
    """c and x  ->  x and c, and so for the other commutative ops."""
    match node.operands:
        case [Constant() as c, Value() as x] if not isinstance(x, Constant):
            return b.emit(node.op, x, c)
    return None


@rewrite(Or, Xor, ShiftLeft, ShiftRight)
def drop_zero(node: Node, b: Builder) -> Value | None:
    """x or false, x xor false, x << 0, x >> 0  ->  x."""
    match node.operands:
        case [Value() as x, Value() as c] if x.type == node.result.type and is_filled(c, 0):
            return x
    return None


@rewrite(And)
def drop_true(node: Node, b: Builder) -> Value | None:
    """x and true  ->  x."""
    match node.operands:
        case [Value() as x, Value() as c] if x.type == node.result.type and is_filled(c, 1):
            return x if x.type.dtype is boolean else None
    return None


@rewrite(Max, Min, And, Or)
def drop_idempotent(node: Node, b: Builder) -> Value | None:
    """max(x, x)  ->  x, and so for the other idempotent ops."""
    match node.operands:
        case [Value() as x, Value() as y] if x is y:
            return x
    return None


@rewrite(Not)
def drop_double_not(node: Node, b: Builder) -> Value | None:
    """not not x  ->  x."""
    match node:
        case Node(Not(), [Value(Node(Not(), [x]))]):
            return x
    return None


@rewrite(Where)
def choose_known_branch(node: Node, b: Builder) -> Value | None:
    """where(true, x, y)  ->  x;  where(false, x, y)  ->  y;  where(c, x, x)  ->  x."""
    match node.operands:
        case [Value() as condition, Value() as then, Value() as other]:
            chosen = None
            if then is other or is_filled(condition, 1):
                chosen = then
            elif is_filled(condition, 0):
                chosen = other
            return chosen if chosen and chosen.type == node.result.type else None
    return None


@rewrite(Where)
def swap_branches(node: Node, b: Builder) -> Value | None:
    """where(not c, x, y)  ->  where(c, y, x)."""
    match node:
        case Node(Where(), [Value(Node(Not(), [Value() as c])), then, other]):
            return b.emit(Where(), c, other, then)
    return None


SIMPLIFY_LOGIC = RewritePass(
    "simplify-logic",
    (
        move_constant_right,
        drop_zero,
        drop_true,
        drop_idempotent,
        drop_double_not,
        choose_known_branch,
        swap_branches,
    ),
)
