"""Smaller models that may show what a model shows: those that end at an earlier node."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import ValueInfoProto

MOST_NODES = 60


def smaller_models(model: bytes) -> Iterator[bytes]:
    """The model cut behind each of its nodes, and without what that does not need."""
    try:
        proto = onnx.load_from_string(model)
    except Exception:
        return
    if 1 < len(proto.graph.node) <= MOST_NODES:
        for count in range(1, len(proto.graph.node) + 1):
            yield _ending_at(proto, count).SerializeToString()


def ops_of(model: bytes) -> str:
    """The kinds of nodes of a model: what faults of several models may have in common."""
    try:
        nodes = onnx.load_from_string(model).graph.node
    except Exception:
        return "unreadable"
    return " ".join(sorted({node.op_type for node in nodes}))[:200]


def _ending_at(proto: onnx.ModelProto, count: int) -> onnx.ModelProto:
    cut = onnx.ModelProto()
    cut.CopyFrom(proto)
    nodes = list(proto.graph.node)[:count]
    wanted = {name for name in nodes[-1].output if name}
    ends = sorted(wanted)
    needed = []
    for node in reversed(nodes):
        if wanted & set(node.output):
            needed.insert(0, node)
            wanted.update(_reads(node))
    graph = cut.graph
    _keep(graph.node, needed)
    _keep(graph.initializer, [t for t in proto.graph.initializer if t.name in wanted])
    _keep(graph.input, [info for info in proto.graph.input if info.name in wanted])
    declared = {info.name: info for info in [*proto.graph.output, *proto.graph.value_info]}
    _keep(graph.output, [declared.get(name, ValueInfoProto(name=name)) for name in ends])
    return cut


def _reads(node: onnx.NodeProto) -> set[str]:
    """Names that a node or the nodes of its bodies read."""
    names = set(node.input)
    for attribute in node.attribute:
        for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            for inner in body.node:
                names |= _reads(inner)
    return names


def _keep(field: object, items: list[object]) -> None:
    copies = list(items)
    del field[:]  # type: ignore[attr-defined]
    field.extend(copies)  # type: ignore[attr-defined]
