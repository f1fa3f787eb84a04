"""Make transposes fewer: compose neighbours, drop those that move nothing, let others take them."""

from __future__ import annotations

from dataclasses import replace

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Transpose
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.permutations import composed, is_identity, swaps_last_two
from afterglow.transforms.views import constant_like


@rewrite(Transpose)
def compose_transposes(node: Node, b: Builder) -> Value | None:
    """transpose(transpose(x, p), q)  ->  transpose(x, p[q])."""
    match node:
        case Node(Transpose(q), [Value(Node(Transpose(p), [x]))]):
            return b.emit(Transpose(composed(p, q)), x)
    return None


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


SIMPLIFY_TRANSPOSES = RewritePass(
    "simplify-transposes",
    (compose_transposes, drop_identity_transpose, transpose_constant, multiply_transposed),
)
