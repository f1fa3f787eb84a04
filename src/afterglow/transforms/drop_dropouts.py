"""Remove dropouts, which drop nothing in inference."""

from __future__ import annotations

from afterglow.graph import Builder, Node, Value
from afterglow.ops.random import Dropout
from afterglow.passes import RewritePass, rewrite


@rewrite(Dropout)
def drop_dropout(node: Node, b: Builder) -> Value | None:
    """dropout(x)  ->  x."""
    return node.operands[0]


DROP_DROPOUTS = RewritePass("drop-dropouts", (drop_dropout,))
