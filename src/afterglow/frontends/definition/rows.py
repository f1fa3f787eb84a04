"""Loops that end when they like, and stack: as many rows as there may be, and how many there are.

ONNX's Loop stacks what each iteration returns, so that the shape depends on their number. Here such
a loop gets one output more, that number, and may stack more rows than that; what the model reads
is a Slice of them. So the loop has static types, and only the Slice does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import helper

from afterglow.frontends.definition.model import count_name, rows_name

_FIRST_OPSET = 10
"""Since when a Slice takes its bounds as inputs."""


def with_rows(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with Slices behind such loops: a copy of it if there are any."""
    opset = max((e.version for e in proto.opset_import if e.domain in ("", "ai.onnx")), default=0)
    if opset < _FIRST_OPSET or not _any_ends_when_it_likes(proto.graph):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    _split_rows(copy.graph)
    return copy


def _any_ends_when_it_likes(graph: onnx.GraphProto) -> bool:
    return any(
        _ends_when_it_likes(node) or any(map(_any_ends_when_it_likes, proto_graphs(node)))
        for node in graph.node
    )


def _split_rows(graph: onnx.GraphProto) -> None:
    for node in [*graph.node]:
        for inner in proto_graphs(node):
            _split_rows(inner)
        if _ends_when_it_likes(node):
            graph.node.extend(_slices(node))


def _slices(loop: onnx.NodeProto) -> list[onnx.NodeProto]:
    """What stands behind a loop once it counts its rows."""
    first = len(_body(loop).input) - 2
    stacked = [name for name in loop.output[first:] if name]
    count, start = count_name(stacked[0]), stacked[0] + "\0start"
    missing = len(_body(loop).output) - 1 - len(loop.output)
    outputs = [rows_name(name) if name in stacked else name for name in loop.output]
    loop.output[:] = [*outputs, *[""] * missing, count]
    zero = helper.make_tensor("", onnx.TensorProto.INT64, (1,), [0])
    begin = helper.make_node("Constant", [], [start], value=zero)
    slices = [
        helper.make_node("Slice", [rows_name(name), start, count], [name], name=loop.name)
        for name in stacked
    ]
    return [begin, *slices]


def proto_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a node has as attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _body(loop: onnx.NodeProto) -> onnx.GraphProto:
    found: Iterator[onnx.GraphProto] = (a.g for a in loop.attribute if a.name == "body")
    return next(found)


def _ends_when_it_likes(node: onnx.NodeProto) -> bool:
    """Whether it is a loop that stacks something, and that more than its limit may end."""
    has_body = any(a.name == "body" and a.HasField("g") for a in node.attribute)
    if node.op_type != "Loop" or node.domain not in ("", "ai.onnx") or not has_body:
        return False
    body = _body(node)
    first, count = len(body.input) - 2, len(body.output) - 1
    if first < 0 or len(node.output) > count or not any(node.output[first:]):
        return False
    return not _always_goes_on(body)


def _always_goes_on(body: onnx.GraphProto) -> bool:
    """Whether what it returns first is what it was given, or the same each time."""
    producers = {name: node for node in body.node for name in node.output}
    name = body.output[0].name
    for _ in body.node:  # as many as may follow each other, unless they form a cycle
        if name in producers and producers[name].op_type == "Identity" and producers[name].input:
            name = producers[name].input[0]
    return name not in producers or producers[name].op_type == "Constant"
