"""Orders of nodes in which each follows what it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from afterglow.graph.function import Function
from afterglow.graph.value import Node
from afterglow.support.errors import CompileError


def producers(node: Node) -> list[Node]:
    """The nodes whose results it reads, each once."""
    return list(dict.fromkeys(v.producer for v in node.inputs() if v.producer is not None))


def topological_order(nodes: Iterable[Node]) -> list[Node]:
    """The nodes, each after those it reads, and otherwise as they come."""
    rank = {node: index for index, node in enumerate(nodes)}
    ordered = list(rank)
    missing = {node: sum(p in rank for p in producers(node)) for node in rank}
    ready = [rank[node] for node, count in missing.items() if not count]
    heapify(ready)
    result = []
    while ready:
        node = ordered[heappop(ready)]
        result.append(node)
        for user in dict.fromkeys(u for value in node.results for u in value.users):
            if user in missing:
                missing[user] -= 1
                if not missing[user]:
                    heappush(ready, rank[user])
    if len(result) < len(rank):
        stuck = next(node for node in rank if missing[node])
        raise CompileError(f"the graph has a cycle through {stuck.name}")
    return result


def in_order(
    nodes: Iterable[Node | None], read_by: Callable[[Node], Iterable[Node | None]]
) -> list[Node]:
    """Nodes with all that they read, directly or not, each after those that it reads; no None."""
    order: list[Node] = []
    seen: set[Node] = set()
    waiting = [(node, False) for node in nodes]
    while waiting:
        node, is_ready = waiting.pop()
        if node is None:
            continue
        if is_ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            waiting.extend((other, False) for other in read_by(node))
    return order


def sort_function(function: Function) -> None:
    """Restore a topological order after nodes were connected to later ones."""
    function.reorder(topological_order(function.nodes))
