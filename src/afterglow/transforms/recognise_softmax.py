"""Recognise softmax and its logarithm where exporters write them as arithmetic."""

from __future__ import annotations

from afterglow.graph import Builder, Node, Op, Value
from afterglow.ops.elementwise import Add, Div, Mul, Sub
from afterglow.ops.functions import Exp, Log, Reciprocal
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.softmax import LogSoftmax, Softmax
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.patterns import emit_as, maker, orders, serves_only, uncast
from afterglow.transforms.matching.values import has_one_use


@rewrite(Div)
def gather_softmax(node: Node, b: Builder) -> Value | None:
    """exp(x) / sum(exp(x))  ->  softmax(x)."""
    return _softmax(node, b, *node.given)


@rewrite(Mul)
def gather_softmax_product(node: Node, b: Builder) -> Value | None:
    """exp(x) * (1 / sum(exp(x)))  ->  softmax(x)."""
    for exponential, factor in orders(node):
        inverse = maker(factor, Reciprocal)
        if inverse is not None:
            return _softmax(node, b, exponential, inverse.given[0])
    return None


def _softmax(node: Node, b: Builder, exponential: Value, total: Value) -> Value | None:
    exponent, summed = maker(exponential, Exp), _summed(total)
    if exponent is None or summed is None or uncast(summed[0]) is not uncast(exponential):
        return None
    return _emit(b, Softmax(summed[1]), node, exponent.given[0])


def _summed(value: Value) -> tuple[Value, int] | None:
    """What a value is the sum of along one axis, with the rank kept, and that axis."""
    node = maker(value, ReduceSum)
    if node is None or not isinstance(node.op, ReduceSum):
        return None
    x, axes = node.given[0], node.op.axes
    return (x, axes[0] % x.type.rank) if node.op.keepdims and len(axes) == 1 else None


def _unshifted(value: Value, axis: int) -> Value | None:
    """The x for which the value is x minus something that does not change along the axis."""
    node = maker(value, Sub)
    if node is None:
        return None
    x, shift = node.given
    return x if _is_level(shift, axis, x) else None


def _is_level(shift: Value, axis: int, x: Value) -> bool:
    rank = x.type.rank
    missing = rank - shift.type.rank
    return missing >= 0 and (axis < missing or shift.type.shape[axis - missing] == 1)


def _emit(b: Builder, op: Op, node: Node, x: Value, *leaves: Value) -> Value | None:
    if x.type.shape != node.result.type.shape or not serves_only(node, [x, *leaves]):
        return None
    return b.emit(op, emit_as(b, x, node.result.type.dtype))


@rewrite(Softmax, LogSoftmax)
def drop_shift(node: Node, b: Builder) -> Value | None:
    """softmax(x - c)  ->  softmax(x)  for a c that does not change along the axis."""
    match node:
        case Node(Softmax(axis) | LogSoftmax(axis) as op, [Value() as shifted]):
            x = _unshifted(shifted, axis % shifted.type.rank)
            if x is not None and x.type == shifted.type and has_one_use(shifted):
                return b.emit(op, x)
    return None


@rewrite(Log)
def gather_log_of_softmax(node: Node, b: Builder) -> Value | None:
    """log(softmax(x))  ->  log_softmax(x)."""
    softmax = maker(node.given[0], Softmax)
    if softmax is None or not isinstance(softmax.op, Softmax):
        return None
    return _emit(b, LogSoftmax(softmax.op.axis), node, softmax.given[0])


@rewrite(Sub)
def gather_log_softmax(node: Node, b: Builder) -> Value | None:
    """x - log(sum(exp(x)))  ->  log_softmax(x)."""
    x, logarithm = node.given
    found = _log_sum_exp(logarithm)
    if found is None or uncast(found[0]) is not uncast(x):
        return None
    return _emit(b, LogSoftmax(found[1]), node, x)


@rewrite(Sub)
def gather_shifted_log_softmax(node: Node, b: Builder) -> Value | None:
    """x - (c + log(sum(exp(x - c))))  ->  log_softmax(x), c the same all along the axis."""
    x, amount = node.given
    total = maker(amount, Add)
    for shift, logarithm in orders(total) if total is not None else ():
        found = _log_sum_exp(logarithm)
        difference = None if found is None else maker(found[0], Sub)
        if found is None or difference is None or not _is_level(shift, found[1], x):
            continue
        if [uncast(v) for v in difference.given] == [uncast(x), uncast(shift)]:
            return _emit(b, LogSoftmax(found[1]), node, x, shift)
    return None


def _log_sum_exp(value: Value) -> tuple[Value, int] | None:
    """The x and the axis for which the value is log(sum(exp(x)))."""
    logarithm = maker(value, Log)
    summed = None if logarithm is None else _summed(logarithm.given[0])
    exponent = None if summed is None else maker(summed[0], Exp)
    return None if summed is None or exponent is None else (exponent.given[0], summed[1])


RECOGNISE_SOFTMAX = RewritePass(
    "recognise-softmax",
    (
        gather_softmax,
        gather_softmax_product,
        drop_shift,
        gather_log_of_softmax,
        gather_log_softmax,
        gather_shifted_log_softmax,
    ),
)
