"""The nodes between values and what they are computed from."""

from __future__ import annotations

from collections.abc import Container, Iterable

from afterglow.graph import Node, Value
from afterglow.graph.order import in_order


def nodes_behind(values: Iterable[Value], stops: Container[Value]) -> list[Node]:
    """The nodes that values take, each after those that it reads; not those behind `stops`."""

    def producers(read: Iterable[Value]) -> list[Node | None]:
        return [None if value in stops else value.producer for value in read]

    return in_order(producers(values), lambda node: producers(node.given))
