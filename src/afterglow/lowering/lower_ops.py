"""Break ops into simpler ones until the backend has an instruction for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from afterglow.graph import Builder, Function, Node, Op
from afterglow.passes import Pass, Property, Replacement, RewritePass, Rule

HasKernel: TypeAlias = Callable[[Node], bool]
"""Whether a backend has a kernel for a node."""


class LowerOps(Pass):
    """Applies `Op.lower` to nodes that the backend has no kernel for, and to what comes out."""

    name = "lower-ops"
    provides = frozenset({Property.LOWERED})

    def __init__(self, has_kernel: HasKernel) -> None:
        self.has_kernel = has_kernel
        self._rewrite = RewritePass(self.name, [Rule((Op,), self._lower)], required=True)

    def run(self, function: Function) -> bool:
        """See the class."""
        return self._rewrite.run(function)

    def _lower(self, node: Node, b: Builder) -> Replacement:
        """op(x…)  ->  op.lower(x…), unless the backend has a kernel for it."""
        if needs_no_lowering(node, self.has_kernel):
            return None
        lowered: Replacement = node.op.lower(b, *node.operands)
        return lowered


def needs_no_lowering(node: Node, has_kernel: HasKernel) -> bool:
    """Whether the node becomes instructions as it is."""
    return node.op.selects_itself() or has_kernel(node)


def unsupported_nodes(function: Function, has_kernel: HasKernel) -> list[Node]:
    """The nodes that no kernel of the backend computes and that do not decompose further.

    Those of the bodies of control flow count as well.
    """
    own = [node for node in function.nodes if not needs_no_lowering(node, has_kernel)]
    inner = (unsupported_nodes(body, has_kernel) for body in function.subgraphs())
    return own + [node for nodes in inner for node in nodes]
