"""The rest of a body: what depends on a value that grew by as much as only data tell.

Such a value has no type where it was made. The nodes that read it become the body of a node that
runs once, into which the length comes as a dimension.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from afterglow.frontends.definition.model import (
    REST,
    AttributeDef,
    AttributeKind,
    GraphDef,
    NodeDef,
    ValueDef,
)
from afterglow.frontends.definition.order import in_order, reads

_CARRYING = {"Concat", "Identity", "If", "Loop"}
"""Ops that take values which grew as they are, or look for themselves at what reads them."""


def with_rest(graph: GraphDef, node: object, names: Sequence[str]) -> GraphDef | None:
    """A body in which a node, and what reads or depends on the same, is a body; None if it is all.

    `names` are those of the values that grew.
    """
    if not names or not isinstance(node, NodeDef):
        return None
    first = [each for each in graph.node if each is node or _reads_any(each, names)]
    rest = _dependents(graph, first)
    if REST in node.attributes or len(rest) == len(graph.node):
        return None
    outputs = [
        name for name in dict.fromkeys(info.name for info in graph.output) if _makes(rest, name)
    ]
    inner = GraphDef(
        f"{graph.name}.rest",
        tuple(rest),
        tuple(map(ValueDef, names)),
        tuple(map(ValueDef, outputs)),
    )
    body = {"body": AttributeDef(AttributeKind.GRAPH, inner)}
    marked = {**body, REST: AttributeDef(AttributeKind.INT, 1)}
    once = NodeDef("Loop", "", f"{node.label}.rest", ("", "", *names), tuple(outputs), marked)
    others = [each for each in graph.node if each not in rest]
    return replace(graph, node=(*others, once))


def _reads_any(node: NodeDef, names: Collection[str]) -> bool:
    return node.op_type not in _CARRYING and any(name in names for name in node.input)


def _dependents(graph: GraphDef, first: Sequence[NodeDef]) -> list[NodeDef]:
    """Nodes and those that depend on what they make, in an order in which they can be computed."""
    outside = {info.name for info in graph.input} | {tensor.name for tensor in graph.constants}
    made, found = {name for node in first for name in node.output if name}, [*first]
    for node in in_order(graph.node, outside).nodes:
        if node not in found and made.intersection(reads(node)):
            found.append(node)
            made.update(name for name in node.output if name)
    return [node for node in graph.node if node in found]


def _makes(nodes: Sequence[NodeDef], name: str) -> bool:
    return any(name in node.output for node in nodes)
