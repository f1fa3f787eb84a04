"""How far the import of a model comes, and which nodes a partition of it needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from afterglow.frontends.base import MOST_DECIDING, HostNode, Partition, Progress
from afterglow.frontends.definition.model import (
    FIRST_ROWS,
    MASKED,
    MASKED_ROWS,
    GraphDef,
    NodeDef,
    model_name,
)
from afterglow.frontends.definition.order import reads
from afterglow.frontends.definition.scope import Scope
from afterglow.graph import Constant, Value
from afterglow.support.lazy_dataclass import dataclass

_ON_HOST = frozenset(
    {
        *("Compress", "NonMaxSuppression", "NonZero", "Range", "Slice", "StringSplit", "Unique"),
        FIRST_ROWS,
        MASKED,
        MASKED_ROWS,
    }
)
"""Ops best run where they are: fewer shapes come out of them than values go in."""


def partition_nodes(graph: GraphDef, partition: Partition) -> list[NodeDef]:
    """The nodes that a partition needs, in the order of the file."""
    wanted = partition.wanted or [output.name for output in graph.output]
    return needed_nodes(graph, wanted, partition.given)


@dataclass(frozen=True)
class Stop:
    """A node whose results have no shape yet, and the inputs whose values decide it."""

    node: NodeDef
    inputs: tuple[str, ...]
    reason: str = HostNode.reason


def needed_nodes(graph: GraphDef, wanted: Iterable[str], given: Iterable[str]) -> list[NodeDef]:
    """The nodes between what is given and what is wanted, in the order of the file."""
    producers = _producers(graph.node)
    needed: set[int] = set()
    seen = set(given)
    waiting = list(wanted)
    while waiting:
        name = waiting.pop()
        if name in seen or name not in producers:
            continue
        seen.add(name)
        index = producers[name]
        if index not in needed:
            needed.add(index)
            waiting.extend(reads(graph.node[index]))
    return [graph.node[index] for index in sorted(needed)]


def progress_of(scope: Scope, stops: Sequence[Stop]) -> Progress:
    """How far an import came, which left its values in a scope."""
    computed = {name: scope.source(name) for name in scope.names() if _crosses(scope, name)}
    values = {name: _is_narrow(value) for name, value in computed.items()}
    return Progress(values, tuple(_host_node(stop, scope) for stop in stops))


def _host_node(stop: Stop, scope: Scope) -> HostNode:
    node = stop.node
    name = node.name or node.output[0]
    # the host stacks just the rows that there are, which the model calls otherwise
    computed = tuple(map(model_name, node.output))
    waits = _has_few_integers(node, scope)
    return HostNode(node.op_type, name, node.output, stop.inputs, computed, waits, stop.reason)


def _producers(nodes: Iterable[NodeDef]) -> dict[str, int]:
    """Which node a name comes from."""
    found: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            found.setdefault(name, index)
    return found


def _crosses(scope: Scope, name: str) -> bool:
    """Whether it is computed here; weights that are differentiated by are better made again."""
    return _is_computed(scope.source(name)) and not scope.varies_alone(name)


def _is_narrow(value: object) -> bool:
    return isinstance(value, Value) and value.type.dtype.is_narrow_float


def _is_computed(value: object) -> bool:
    """Whether it is a tensor that a node of ours computes."""
    return isinstance(value, Value) and value.producer is not None


def _has_few_integers(node: NodeDef, scope: Scope) -> bool:
    """Whether a node can be imported once some integers that it takes are known."""
    if node.op_type in _ON_HOST:
        return False
    if node.op_type == "If":  # whose condition is as good as an integer
        return _is_computed(scope.source(node.input[0]))
    operands = [scope.source(name) for name in node.input if name and name in scope]
    return any(_is_few(value) for value in operands if _is_computed(value))


def _is_few(value: object) -> bool:
    if not isinstance(value, Value) or isinstance(value, Constant):
        return False
    return value.type.dtype.is_integer and value.type.size <= MOST_DECIDING
