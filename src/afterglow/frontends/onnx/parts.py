"""Partitions of a model: from boundary values that are given to values that are wanted."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from afterglow.frontends.base import MOST_DECIDING, Boundary, HostNode, Partition
from afterglow.frontends.onnx.definition import GraphDef, NodeDef, model_name
from afterglow.frontends.onnx.order import reads
from afterglow.frontends.onnx.scope import Scope
from afterglow.graph import Constant, Value

_ON_HOST = frozenset(
    {"Compress", "NonMaxSuppression", "NonZero", "Range", "Slice", "StringSplit", "Unique"}
)
"""Ops best run where they are: fewer shapes come out of them than values go in."""


def wide_name(name: str) -> str:
    """What a boundary value is called in f32, as it was before it was rounded."""
    return f"\0f32 {name}"


def partition_nodes(graph: GraphDef, partition: Partition) -> list[NodeDef]:
    """The nodes that a partition needs, in the order of the file."""
    wanted = partition.wanted or [output.name for output in graph.output]
    return needed_nodes(graph, wanted, partition.given)


@dataclass(frozen=True)
class Stop:
    """A node whose results have no shape yet, and the inputs whose values decide it."""

    node: NodeDef
    inputs: tuple[str, ...]

    def shown(self) -> HostNode:
        """The same without the node itself."""
        results = tuple(self.node.output)
        return HostNode(self.node.op_type, self.node.name or results[0], results, self.inputs)


def needed_nodes(graph: GraphDef, wanted: Iterable[str], given: Iterable[str]) -> list[NodeDef]:
    """The nodes between what is given and what is wanted, in the order of the file."""
    return [graph.node[index] for index in sorted(needed_indices(graph, wanted, given))]


def needed_indices(graph: GraphDef, wanted: Iterable[str], given: Iterable[str]) -> set[int]:
    """The places of these nodes in the file."""
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
    return needed


def plan_boundary(
    scope: Scope,
    nodes: Sequence[NodeDef],
    stops: Sequence[Stop],
    outputs: Iterable[str],
    given: Container[str] = (),
) -> Boundary:
    """Partition behind everything that could be imported into a scope; what is given stays so."""
    producers = _producers(nodes)
    values: dict[str, None] = {}
    reached: set[int] = set()
    waiting = [*outputs]
    seen = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        index = producers.get(name)
        if name in given:
            continue
        if not scope.is_broken(name) and _crosses(scope, name):
            values[name] = None
            if _is_narrow(scope.source(name)):
                values[wide_name(name)] = None
        elif index is not None:
            reached.add(index)
            waiting.extend(reads(nodes[index]))
    at = {id(nodes[index]) for index in reached}
    here = tuple(stop for stop in stops if id(stop.node) in at)
    on_host = [stop.node for stop in here if not _has_few_integers(stop.node, scope)]
    return Boundary(tuple(stop.shown() for stop in here), tuple(values), *_with_twins(on_host))


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


def _with_twins(nodes: Iterable[NodeDef]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The results of nodes without those of a node that does the same, and which these equal."""
    first: dict[object, NodeDef] = {}
    twins: dict[str, str] = {}
    for node in nodes:
        known = first.setdefault(node.identity, node)
        if known is not node:
            pairs = zip(_results(node), _results(known), strict=False)
            twins.update((name, other) for name, other in pairs if name)
    return tuple(name for node in first.values() for name in _results(node) if name), twins


def _results(node: NodeDef) -> list[str]:
    """The results of a node as the model calls them: the host stacks just the rows there are."""
    return [model_name(name) for name in node.output]
