"""Get the bodies of control flow ready to be differentiated.

Variables that a body reads by itself become operands of the node that carries it, and what depends
on nothing that changes from step to step is computed once, before the scan.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from dataclasses import fields, replace

from afterglow.autodiff.loop import become_scan
from afterglow.autodiff.rule import erase_unused
from afterglow.graph import Builder, Function, Node, Op, Subgraph, Value
from afterglow.graph.builder import reapply
from afterglow.graph.function import Cloner, subgraphs_of
from afterglow.graph.order import in_order, producers
from afterglow.ops.control import Loop, Scan


def prepare(node: Node, variables: Collection[Value], varying: Container[Value]) -> list[Node]:
    """Let control flow take what it reads of the variables; the node behind what is now in front.

    If it depends on variables, a loop that can be one becomes a scan, and what is the same in each
    step of a scan is computed in front of it.
    """
    if not subgraphs_of(node.op):
        return [node]
    _capture(node, variables)
    if not any(value in varying for value in node.given):
        return [node]
    before = become_scan(node, node.op) if isinstance(node.op, Loop) else []
    if isinstance(node.op, Scan):
        before.extend(_hoist(node, node.op))
    return [*before, node]


def copied_body(body: Function, target: Function) -> Function:
    """A copy of a body in the module of `target`, to be changed."""
    copy = target.module.new_function(body.name)
    return Cloner(body, copy).run()


def reads(function: Function, variables: Collection[Value]) -> list[Value]:
    """The variables that a function reads, or one that its nodes carry; each once."""
    values = {value: None for node in function.nodes for value in node.inputs()}
    values.update(dict.fromkeys(function.escaping()))
    for inner in function.subgraphs():
        values.update(dict.fromkeys(reads(inner, variables)))
    return [value for value in values if value in variables]


def _capture(node: Node, variables: Collection[Value]) -> None:
    """Let the bodies take as operands what they read of the variables."""
    function = node.function
    assert function is not None
    bodies = [subgraph.function for subgraph in subgraphs_of(node.op)]
    read = list(dict.fromkeys(value for body in bodies for value in reads(body, variables)))
    if not read:
        return
    copies = {body: copied_body(body, function) for body in bodies}
    for copy in copies.values():
        _take(copy, read)
    reapply(node, _carrying(node.op, copies), *node.operands, *read)


def _take(body: Function, read: Sequence[Value]) -> None:
    """Let a body take values as inputs that it has read by itself."""
    for node in body.nodes:
        if subgraphs_of(node.op):
            _capture(node, read)
    for value in read:
        taken = body.input(value.name, value.type)
        body.replace(value, taken)


def _carrying(op: Op, copies: dict[Function, Function]) -> Op:
    """The op with other functions in place of those that it carries."""
    own = {field.name: getattr(op, field.name) for field in fields(op)}  # type: ignore[arg-type]  # ops are dataclasses
    moved = {
        name: Subgraph(copies[value.function])
        for name, value in own.items()
        if isinstance(value, Subgraph)
    }
    return replace(op, **moved)  # type: ignore[type-var]  # as above


def _hoist(node: Node, op: Scan) -> list[Node]:
    """Compute in front of a scan what in each of its steps is the same; the nodes that do."""
    function = node.function
    assert function is not None
    if not _invariant(op.body.function, op):
        return []
    body, first = copied_body(op.body.function, function), op.carried + op.scanned
    invariant = _invariant(body, op)
    values: dict[Value, Value] = dict(zip(body.inputs[first:], node.given[first:], strict=True))
    b = Builder(function, before=node, origins=node.origins)
    for inner in in_order(invariant, producers):
        operands = [None if v is None else values.get(v, v) for v in inner.operands]
        values.update(zip(inner.results, b.emit_all(inner.op, *operands), strict=True))
    used = _used(body, invariant)
    for result in used:
        body.replace(result, body.input(result.name, result.type))
    erase_unused(body)
    reapply(node, replace(op, body=Subgraph(body)), *node.operands, *(values[v] for v in used))
    return b.emitted


def _invariant(body: Function, op: Scan) -> list[Node]:
    """The nodes of a body that depend on captured values and on nothing else that is given."""
    varying: set[Value] = {*body.inputs[: op.carried + op.scanned]}
    captured: set[Value] = {*body.inputs[op.carried + op.scanned :]}
    found = []
    for node in body.nodes:
        inputs = [*node.inputs()]
        if not node.op.pure or any(value in varying for value in inputs):
            varying.update(node.results)
        elif any(value in captured for value in inputs):
            found.append(node)
            captured.update(node.results)
    return found


def _used(body: Function, nodes: Sequence[Node]) -> list[Value]:
    """Of the results of some nodes, those that other nodes use or the body returns."""
    inner, escaping = {*nodes}, {*body.escaping()}
    results = [result for node in nodes for result in node.results]
    return [v for v in results if v in escaping or not inner.issuperset(v.users)]
