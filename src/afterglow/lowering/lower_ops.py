"""Break ops into simpler ones until the backend has an instruction for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from afterglow.graph import Builder, Function, Node, Op
from afterglow.passes import Pass, Property, Replacement, RewritePass, Rule

Keeps: TypeAlias = Callable[[Op], bool]
"""Whether a backend wants an op whole."""


class LowerOps(Pass):
    """Applies `Op.lower` to every op that the backend does not keep, and to what comes out."""

    name = "lower-ops"
    provides = frozenset({Property.LOWERED})

    def __init__(self, keeps: Keeps) -> None:
        self.keeps = keeps
        self._rewrite = RewritePass(self.name, [Rule((Op,), self._lower)])

    def run(self, function: Function) -> bool:
        """See the class."""
        return self._rewrite.run(function)

    def _lower(self, node: Node, b: Builder) -> Replacement:
        """op(x…)  ->  op.lower(x…), unless the backend keeps it."""
        if needs_no_lowering(node.op, self.keeps):
            return None
        lowered: Replacement = node.op.lower(b, *node.operands)
        return lowered


def needs_no_lowering(op: Op, keeps: Keeps) -> bool:
    """Whether the op becomes instructions as it is."""
    return op.selects_itself() or keeps(op)


def unsupported_nodes(function: Function, keeps: Keeps) -> list[Node]:
    """The nodes that no kernel of the backend computes and that do not decompose further.

    Those of the bodies of control flow count as well.
    """
    own = [node for node in function.nodes if not needs_no_lowering(node.op, keeps)]
    inner = (unsupported_nodes(body, keeps) for body in function.subgraphs())
    return own + [node for nodes in inner for node in nodes]
