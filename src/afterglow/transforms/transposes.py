"""Make transposes fewer: compose neighbours, drop identities, fold them into products."""

from __future__ import annotations

import math
from dataclasses import replace

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.layouts.layout import Layout
from afterglow.transforms.layouts.permutations import (
    Perm,
    composed,
    inverse,
    is_identity,
    keeps_order,
    swaps_last_two,
)
from afterglow.transforms.matching.values import constant_like, has_one_use


@rewrite(Transpose)
def compose_transposes(node: Node, b: Builder) -> Value | None:
    """transpose(transpose(x, p), q)  ->  transpose(x, p[q])."""
    match node:
        case Node(Transpose(q), [Value(Node(Transpose(p), [x])) as inner]) if _is_work(q, inner):
            return b.emit(Transpose(composed(p, q)), x)
    return None


def _is_work(perm: Perm, value: Value) -> bool:
    """Whether the transpose of a value moves data, rather than reshapes it."""
    return not keeps_order(perm, value.type.shape) or has_one_use(value)


@rewrite(Transpose)
def compose_around_reshape(node: Node, b: Builder) -> Value | None:
    """transpose(reshape(transpose(x)))  ->  reshape(transpose(reshape(x))).

    Whatever axes the reshape cuts and joins, the elements are put in order once.
    """
    match node:
        case Node(Transpose(q), [Value() as outer]) if not keeps_order(q, outer.type.shape):
            return transposed_once(b, outer, q)
    return None


def transposed_once(b: Builder, value: Value, perm: Perm) -> Value | None:
    """transpose(value, perm), of which the value is a reshape of a transpose: of what that takes.

    None if it is not, or if its axes cannot be told apart there.
    """
    match value:
        case Value(Node(Reshape(shape), [Value(Node(Transpose(p), [Value() as x])) as inner])) if (
            value.type.nbytes
        ):
            layout = Layout(inner.type.shape, inverse(p)).carried(shape)
            if layout is None:
                return None
            order = _flat(layout, perm, shape)
            moved = b.emit(Transpose(order.perm), b.emit(Reshape(order.factors), x))
            return b.emit(Reshape(tuple(shape[axis] for axis in perm)), moved)
    return None


def _flat(layout: Layout, perm: Perm, shape: tuple[int, ...]) -> Layout:
    """With the fewest factors, what `perm` makes of a value of that shape that lies in `layout`."""
    place = inverse(layout.perm)
    axes = layout.axes(shape)
    target = [place[factor] for axis in perm for factor in axes[axis]]
    order = Layout(layout.shape, tuple(target)).carried((math.prod(shape),))
    assert order is not None, "every factor divides the product of all"
    return order


@rewrite(Transpose)
def drop_identity_transpose(node: Node, b: Builder) -> Value | None:
    """transpose(x, (0, 1, ..., n))  ->  x."""
    match node:
        case Node(Transpose(perm), [x]) if is_identity(perm):
            return x
    return None


@rewrite(Transpose)
def transpose_constant(node: Node, b: Builder) -> Value | None:
    """transpose(constant, p)  ->  constant: a view, nothing is copied."""
    match node:
        case Node(Transpose(perm), [Constant(data) as source]):
            return constant_like(b, source, data.transpose(perm), node.result.type)
    return None


@rewrite(MatMul)
def multiply_transposed(node: Node, b: Builder) -> Value | None:
    """matmul(transpose(x), y)  ->  matmul(x, y) with the flag of lhs turned; rhs likewise.

    Only where the transpose swaps the last two axes and nothing else.
    """
    match node:
        case Node(MatMul() as op, [Value() as lhs, Value() as rhs]):
            plain_lhs, plain_rhs = _untransposed(lhs), _untransposed(rhs)
            if plain_lhs is lhs and plain_rhs is rhs:
                return None
            flags = replace(
                op,
                transpose_lhs=op.transpose_lhs ^ (plain_lhs is not lhs),
                transpose_rhs=op.transpose_rhs ^ (plain_rhs is not rhs),
            )
            return b.emit(flags, plain_lhs, plain_rhs)
    return None


def _untransposed(value: Value) -> Value:
    match value:
        case Value(Node(Transpose(perm), [Value() as x])) if swaps_last_two(perm):
            return x
    return value


@rewrite(MatMul)
def keep_rows_whole(node: Node, b: Builder) -> Value | None:
    """matmul(x, transpose(y, (..., n, m)))  ->  matmul(x, transpose(y, (..., m, n)), transposed).

    Where n is y's last axis, so that whole rows of y move and not single elements; lhs likewise.
    """
    match node:
        case Node(MatMul() as op, [Value() as lhs, Value() as rhs]):
            if _breaks_rows(lhs):
                flags = replace(op, transpose_lhs=not op.transpose_lhs)
                return b.emit(flags, _with_rows_whole(b, lhs), rhs)
            if _breaks_rows(rhs):
                flags = replace(op, transpose_rhs=not op.transpose_rhs)
                return b.emit(flags, lhs, _with_rows_whole(b, rhs))
    return None


def _breaks_rows(value: Value) -> bool:
    match value:
        case Value(Node(Transpose(perm))) if has_one_use(value):
            return len(perm) > 1 and perm[-2] == len(perm) - 1
    return False


def _with_rows_whole(b: Builder, value: Value) -> Value:
    match value:
        case Value(Node(Transpose((*batch, last, rows)), [Value() as x])):
            return b.emit(Transpose((*batch, rows, last)), x)
    raise AssertionError("only transposes break rows")


SIMPLIFY_TRANSPOSES = RewritePass(
    "simplify-transposes",
    (
        compose_transposes,
        compose_around_reshape,
        drop_identity_transpose,
        transpose_constant,
        multiply_transposed,
        keep_rows_whole,
    ),
)
