"""The order of a graph's nodes, which a file may get wrong, and the names that they read."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from heapq import heapify, heappop, heappush

from afterglow.frontends.definition.model import GraphDef, ModelDef, NodeDef
from afterglow.support.lazy_dataclass import dataclass


def reads(node: NodeDef) -> Sequence[str]:
    """The names that a node reads, with those that its sub-graphs take from outside."""
    return node.reads


def model_reads(model: ModelDef) -> Iterator[str]:
    """The names that nodes anywhere in a model read, and that its graphs and functions return."""
    yield from _graph_reads(model.graph)
    for function in model.functions:
        yield from function.output
        for node in function.node:
            yield from _node_reads(node)


def _graph_reads(graph: GraphDef) -> Iterator[str]:
    yield from (info.name for info in graph.output)
    for node in graph.node:
        yield from _node_reads(node)


def _node_reads(node: NodeDef) -> Iterator[str]:
    yield from node.input
    yield from node.named_values
    for graph in node.graphs():
        yield from _graph_reads(graph)


def free_names(graph: GraphDef) -> Iterator[str]:
    """The names that a graph reads but does not define, each once."""
    return iter(graph.free_names)


@dataclass(frozen=True)
class NodeOrder:
    """Nodes, each after those it reads and otherwise as they come.

    If nodes form cycles, `cycle` is one of them, and `stuck` are all nodes on cycles or behind one.
    """

    nodes: Sequence[NodeDef]
    cycle: Sequence[NodeDef] = ()
    stuck: Sequence[NodeDef] = ()


def in_order(nodes: Sequence[NodeDef], defined: Container[str]) -> NodeOrder:
    """Find an order in which the nodes can be imported, given that some names are defined."""
    producer: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            if name not in defined:
                producer.setdefault(name, index)
    sources = [{producer[name] for name in reads(node) if name in producer} for node in nodes]
    if all(source < i for i, needed in enumerate(sources) for source in needed):
        return NodeOrder(nodes)
    order = _sorted(sources)
    stuck = {*range(len(nodes))}.difference(order)
    parts = (order, _cycle(sources, stuck) if stuck else [], sorted(stuck))
    return NodeOrder(*([nodes[i] for i in part] for part in parts))


def _sorted(sources: Sequence[set[int]]) -> list[int]:
    """Indices, each after its sources, the lowest first; those on a cycle never come."""
    missing = [len(needed) for needed in sources]
    users: list[list[int]] = [[] for _ in sources]
    for index, needed in enumerate(sources):
        for source in needed:
            users[source].append(index)
    ready = [index for index, count in enumerate(missing) if not count]
    heapify(ready)
    order = []
    while ready:
        order.append(heappop(ready))
        for user in users[order[-1]]:
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, user)
    return order


def _cycle(sources: Sequence[set[int]], stuck: set[int]) -> list[int]:
    """Some cycle: go from a stuck node to a stuck source until one comes again."""
    at = min(stuck)
    path: dict[int, int] = {}
    while at not in path:
        path[at] = len(path)
        at = min(sources[at] & stuck)
    return list(path)[path[at] :][::-1]
