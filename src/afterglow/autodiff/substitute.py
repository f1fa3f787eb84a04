"""Evaluating what is computed already once more, for other values of what it is computed from."""

from __future__ import annotations

from collections.abc import Mapping

from afterglow.autodiff.cone import nodes_behind
from afterglow.graph import Builder, Value


def substituted(b: Builder, y: Value, new: Mapping[Value, Value]) -> Value:
    """Emit `y` as it would be if some values were others of the same types.

    Only what depends on these values is computed anew.
    """
    values = dict(new)
    for node in nodes_behind([y], new):
        if not any(operand in values for operand in node.given):
            continue
        operands = [None if v is None else values.get(v, v) for v in node.operands]
        copy = b.emit_node(node.op, *operands, origin=node.origin)
        pairs = zip(node.results, copy.results, strict=True)
        values.update((old, result) for old, result in pairs if old not in new)
    return values.get(y, y)
