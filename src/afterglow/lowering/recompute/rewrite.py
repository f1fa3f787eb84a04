"""Nodes that compute values of the forward pass again, where the backward pass reads them."""

from __future__ import annotations

from collections.abc import Container

from afterglow.graph import Node, Value
from afterglow.lowering.recompute.forward import Forward, is_heavy


def compute_again(forward: Forward, kept: Container[Value]) -> dict[Node, Node]:
    """Let the backward pass read copies of what is not kept; the copies, each with a node before.

    A copy that runs before that one, in the forward pass say, is there for longer than need be.
    """
    return _Rewriter(forward, kept).run()


class _Rewriter:
    """Remembers the copies: each node runs again at most once."""

    def __init__(self, forward: Forward, kept: Container[Value]) -> None:
        self.forward = forward
        self.kept = kept
        self.copies: dict[Value, Value] = {}
        self.after: dict[Node, Node] = {}
        self.last = forward.nodes[-1]
        """The last node of the forward pass, or the last heavy one of the backward pass so far."""

    def run(self) -> dict[Node, Node]:
        for node in self.forward.backward:
            for index, operand in enumerate(node.operands):
                if operand is not None and self._is_dropped(operand):
                    node.set_operand(index, self._copy(operand, node))
            if is_heavy(node):
                self.last = node
        return self.after

    def _is_dropped(self, value: Value) -> bool:
        return self.forward.has(value) and value not in self.kept

    def _taken(self, value: Value | None) -> Value | None:
        """What a copy reads instead of a value."""
        return self.copies[value] if value is not None and self._is_dropped(value) else value

    def _copy(self, value: Value, before: Node) -> Value:
        """The copy of a value, made in front of a node with all that it needs."""
        waiting = [value]
        while waiting:
            producer = waiting[-1].producer
            assert producer is not None
            dropped = [v for v in producer.given if self._is_dropped(v) and v not in self.copies]
            waiting.extend(dropped)
            if not dropped:
                self._copy_node(producer, before)
                waiting.pop()
        return self.copies[value]

    def _copy_node(self, node: Node, before: Node) -> None:
        if node.results[0] in self.copies:
            return
        function = self.forward.function
        operands = [self._taken(v) for v in node.operands]
        names = [function.names.claim(f"{result.name}.again") for result in node.results]
        copy = Node(
            node.op, operands, [result.type for result in node.results], names, node.origins
        )
        copy.predicate = node.predicate
        function.insert(copy, before)
        self.after[copy] = self.last
        self.copies.update(zip(node.results, copy.results, strict=True))
