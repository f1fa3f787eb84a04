"""The nodes between values and what they are computed from."""

from __future__ import annotations

from collections.abc import Container, Iterable

from afterglow.graph import Node, Value


def nodes_behind(values: Iterable[Value], stops: Container[Value]) -> list[Node]:
    """The nodes that values take, each after those that it reads; not those behind `stops`."""
    order: list[Node] = []
    seen: set[Node] = set()
    waiting = [(value, False) for value in values]
    while waiting:
        value, is_ready = waiting.pop()
        node = value.producer
        if node is None or value in stops:
            continue
        if is_ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            waiting.append((value, True))
            waiting.extend((operand, False) for operand in node.given)
    return order
