"""Expand einsums, so that the products in them are optimised like all others."""

from __future__ import annotations

from afterglow.graph import Builder, Node
from afterglow.ops.einsum import Einsum
from afterglow.passes import Replacement, RewritePass, rewrite


@rewrite(Einsum)
def expand_einsum(node: Node, b: Builder) -> Replacement:
    """einsum(x, y)  ->  products, transposes and sums."""
    expanded: Replacement = node.op.lower(b, *node.operands)
    return expanded


EXPAND_EINSUM = RewritePass("expand-einsum", (expand_einsum,))
