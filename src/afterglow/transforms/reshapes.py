"""Make reshapes and expansions fewer; a transpose that keeps the order of elements is a reshape."""

from __future__ import annotations

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.movement import Expand, Reshape, Tile, Transpose
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.layouts.permutations import keeps_order
from afterglow.transforms.matching.values import constant_like


@rewrite(Reshape)
def compose_reshapes(node: Node, b: Builder) -> Value | None:
    """reshape(reshape(x, s), t)  ->  reshape(x, t)."""
    match node:
        case Node(Reshape() as outer, [Value(Node(Reshape(), [x]))]):
            return b.emit(outer, x)
    return None


@rewrite(Reshape, Expand, Tile)
def drop_idle_reshape(node: Node, b: Builder) -> Value | None:
    """reshape(x, shape of x)  ->  x;  expand and tile likewise."""
    match node:
        case Node(_, [Value() as x]) if x.type == node.result.type:
            return x
    return None


@rewrite(Reshape)
def reshape_constant(node: Node, b: Builder) -> Value | None:
    """reshape(constant, s)  ->  constant: a view, or a copy if it is a transposed view itself."""
    match node:
        case Node(Reshape(shape), [Constant(data) as source]):
            return constant_like(b, source, data.reshape(shape), node.result.type)
    return None


@rewrite(Transpose)
def transpose_by_reshape(node: Node, b: Builder) -> Value | None:
    """transpose(x, p)  ->  reshape(x, s),  if p moves only axes of extent 1."""
    match node:
        case Node(Transpose(perm), [Value() as x]) if keeps_order(perm, x.type.shape):
            if x.type.quantization is not None and x.type.quantization.axis is not None:
                return None
            return b.emit(Reshape(node.result.type.shape), x)
    return None


@rewrite(Expand)
def compose_expansions(node: Node, b: Builder) -> Value | None:
    """expand(expand(x, s), t)  ->  expand(x, t)."""
    match node:
        case Node(Expand() as outer, [Value(Node(Expand(), [x]))]):
            return b.emit(outer, x)
    return None


SIMPLIFY_RESHAPES = RewritePass(
    "simplify-reshapes",
    (
        compose_reshapes,
        drop_idle_reshape,
        reshape_constant,
        transpose_by_reshape,
        compose_expansions,
    ),
)
