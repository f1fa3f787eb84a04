"""The nodes that a value depends on."""

from __future__ import annotations

from collections.abc import Container, Iterable

from afterglow.graph import Node, Value
from afterglow.graph.order import in_order


def nodes_behind(values: Iterable[Value], stops: Container[Value]) -> list[Node]:
    """The nodes that values depend on, in topological order; not those behind `stops`."""

    def producers(read: Iterable[Value]) -> list[Node | None]:
        return [None if value in stops else value.producer for value in read]

    return in_order(producers(values), lambda node: producers(node.given))
