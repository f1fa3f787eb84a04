"""Dequantize weights and activations once per reader, not once for all readers."""

from __future__ import annotations

from afterglow.graph import Builder, Function, Node
from afterglow.passes import Pass


class DequantizePerReader(Pass):
    """Every reader of a dequantized value gets a dequantization of its own.

    Each can then be fused into its reader, and memory holds the quantized form.
    """

    name = "dequantize-per-reader"

    def run(self, function: Function) -> bool:
        """See the class."""
        returned = set(function.escaping())
        shared = [
            node
            for node in function.nodes
            if node.op.dequantizes and len(node.result.users) > 1 and node.result not in returned
        ]
        for node in shared:
            for user in node.result.users[1:]:
                _dequantize_for(function, node, user)
        return bool(shared)


def _dequantize_for(function: Function, node: Node, user: Node) -> None:
    """Give one user a copy of the node, right before it."""
    b = Builder(function, user, name=node.name, origins=node.origins, predicate=node.predicate)
    copy = b.emit(node.op, *node.operands)
    for reader, index in node.result.uses:
        if reader is user and index >= 0:
            user.set_operand(index, copy)
