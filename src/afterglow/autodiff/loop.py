"""Loops whose number of iterations is known are scans, which have a gradient."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Constant, Node, Subgraph, Value, run_node
from afterglow.graph.builder import reapply
from afterglow.graph.function import Cloner
from afterglow.ops.control import Loop, Scan
from afterglow.ops.indexing import Iota
from afterglow.types.dtype import i64
from afterglow.types.extent import is_ranged


def become_scan(node: Node, op: Loop) -> list[Node]:
    """Let a loop be a scan of the numbers of its iterations; the nodes in front that this takes.

    It stays a loop if data decide how often it runs.
    """
    length, function = _iterations(node, op), node.function
    assert function is not None
    if length is None:
        return []
    body = Cloner(op.body.function, function.module.new_function(op.body.function.name)).run()
    number, *others = body.inputs
    body.inputs = [*others[: op.carried], number, *others[op.carried :]]
    del body.outputs[0]
    carried, captured = node.operands[2 : 2 + op.carried], node.operands[2 + op.carried :]
    b = Builder(function, before=node, origins=node.origins)
    numbers = b.emit(Iota((length,), 0, i64))
    reapply(node, Scan(Subgraph(body), length, op.carried, 1), *carried, numbers, *captured)
    return b.emitted


def _iterations(node: Node, op: Loop) -> int | None:
    """How often a loop runs, if that is known and the same for all data."""
    limit, condition = node.given[:2]
    if is_ranged(op.iteration) or op.lengths or not isinstance(limit, Constant):
        return None
    goes_on = all(map(_is_true, (condition, op.body.function.outputs[0].value)))
    return max(int(limit.data), 0) if goes_on else None


def _is_true(value: Value) -> bool:
    """Whether a value is true, whatever the data are."""
    if isinstance(value, Constant):
        return bool(value.data)
    node = value.producer
    constants = [v for v in node.operands if isinstance(v, Constant)] if node else []
    if node is None or len(constants) < len(node.operands):
        return False
    results = run_node(node, [constant.data for constant in constants])
    return bool(np.all(results[node.results.index(value)]))
