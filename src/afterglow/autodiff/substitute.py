"""Clone the nodes between some inputs and an output, with other values for those inputs."""

from __future__ import annotations

from collections.abc import Mapping

from afterglow.autodiff.cone import nodes_behind
from afterglow.graph import Builder, Value


def substituted(b: Builder, y: Value, new: Mapping[Value, Value]) -> Value:
    """Clone what computes `y` from the keys of `new`, with their new values; return the new `y`.

    Nodes that do not depend on these values are shared.
    """
    values = dict(new)
    for node in nodes_behind([y], new):
        if not any(operand in values for operand in node.given):
            continue
        operands = [None if v is None else values.get(v, v) for v in node.operands]
        copy = b.emit_node(node.op, *operands, origins=node.origins)
        pairs = zip(node.results, copy.results, strict=True)
        values.update((old, result) for old, result in pairs if old not in new)
    return values.get(y, y)
