"""What the values in the body of a scan were, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from afterglow.graph import Builder, Node, Subgraph, Value
from afterglow.graph.builder import reapply
from afterglow.graph.function import Cloner
from afterglow.ops.control import Scan, states_before
from afterglow.types.extent import is_ranged


def all_parts(b: Builder, node: Node, values: Sequence[Value]) -> list[Value]:
    """For each value of the body of a scan, those of all steps.

    What the scan does not give yet becomes further results of it. States before each step are those
    after the step before, if these are results.
    """
    known = {value: _known(b, node, value) for value in values}
    missing = [value for value, parts in known.items() if parts is None]
    given = dict(zip(missing, _return_more(node, missing), strict=True))
    return [known[value] or given[value] for value in values]


def _known(b: Builder, node: Node, value: Value) -> Value | None:
    op = node.op
    assert isinstance(op, Scan)
    body = op.body.function
    returned = [output.value for output in body.outputs]
    if value in returned[op.carried :]:
        return node.results[returned.index(value, op.carried)]
    if value not in body.inputs:
        return None
    index = body.inputs.index(value)
    if index >= op.carried:
        return node.operands[index]
    if returned[index] not in returned[op.carried :] or is_ranged(op.length):
        return None
    after = node.results[returned.index(returned[index], op.carried)]
    return states_before(b, after, node.given[index], op.reverse)


def _return_more(node: Node, values: Sequence[Value]) -> tuple[Value, ...]:
    """Let a scan return further values of its body, of all steps."""
    op, function = node.op, node.function
    assert isinstance(op, Scan)
    assert function is not None
    if not values:
        return ()
    copies = Cloner(op.body.function, function.module.new_function(op.body.function.name))
    body = copies.run()
    for value in values:
        body.output(f"kept_{len(body.outputs)}", copies.copy_of(value))
    return reapply(node, replace(op, body=Subgraph(body)), *node.operands)
