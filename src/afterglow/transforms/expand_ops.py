"""Replace ops that stand for others, so that these are optimised like all others."""

from __future__ import annotations

from afterglow.graph import Builder, Node, Op
from afterglow.passes import Replacement, RewritePass, rewrite


@rewrite(Op)
def expand_op(node: Node, b: Builder) -> Replacement:
    """op(x…)  ->  op.lower(x…), if the op says that it stands for that."""
    expanded: Replacement = node.op.lower(b, *node.operands) if node.op.expands else None
    return expanded


EXPAND_OPS = RewritePass("expand-ops", (expand_op,))
