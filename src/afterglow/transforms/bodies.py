"""Simplify what the bodies of If, Loop and Scan capture from outside.

A body that no other node carries is changed in place, together with the node that carries it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from afterglow.graph import Builder, Constant, Function, Node, Placeholder, Value
from afterglow.graph.function import subgraphs_of
from afterglow.ops.control import If, Loop, Scan
from afterglow.passes import Replacement, RewritePass, rewrite

ValueT = TypeVar("ValueT", bound=Value)


@rewrite(Loop, Scan)
def capture_unchanged(node: Node, b: Builder) -> Replacement:
    """loop(x, y…) whose body returns x as it came  ->  x, and loop(y…) which captures x."""
    op, bodies = node.op, _own_bodies(node)
    if not bodies or not isinstance(op, (Loop, Scan)):
        return None
    (body,), carried = bodies, op.carried_values()
    lengths = len(op.lengths) if isinstance(op, Loop) else 0  # which are read where they lie
    fixed = [
        index
        for index, (taken, returned) in enumerate(carried)
        if body.outputs[returned].value is body.inputs[taken] and index >= lengths
    ]
    if not fixed:
        return None
    first = 2 if isinstance(op, Loop) else 0
    operands = [v for v in node.operands if v is not None]
    unchanged = {index: operands[first + index] for index in fixed}
    body.inputs = _moved_to_end(body.inputs, [carried[index][0] for index in fixed])
    returned = {carried[index][1] for index in fixed}
    body.outputs = [out for index, out in enumerate(body.outputs) if index not in returned]
    moved = _moved_to_end(operands, [first + index for index in fixed])
    loop = b.emit_node(replace(op, carried=op.carried - len(fixed)), *moved)
    rest = iter(loop.results)
    return [
        unchanged[index] if index in unchanged else next(rest) for index in range(len(node.results))
    ]


@rewrite(If, Loop, Scan)
def take_less(node: Node, b: Builder) -> Replacement:
    """op(…, x, c) of bodies that never use x  ->  op(…) of bodies that have the constant c."""
    bodies = _own_bodies(node)
    operands = [v for v in node.operands if v is not None]
    first = _first_captured(node)
    given = [
        (index, [body.inputs[index - len(operands)] for body in bodies])
        for index in range(first, len(operands))
    ]
    left_out = {
        index: placeholders
        for index, placeholders in given
        if isinstance(operands[index], Constant) or not _are_used(bodies, placeholders)
    }
    if not bodies or not left_out:
        return None
    for index, placeholders in left_out.items():
        for body, placeholder in zip(bodies, placeholders, strict=True):
            body.replace(placeholder, operands[index])
            body.inputs.remove(placeholder)
    kept = [value for index, value in enumerate(operands) if index not in left_out]
    return b.emit_node(node.op, *kept).results


def _own_bodies(node: Node) -> list[Function]:
    """The functions that a node carries, if it is the only one to carry them, and each once."""
    bodies = [subgraph.function for subgraph in subgraphs_of(node.op)]
    if node.function is None:
        return []
    functions = node.function.module.functions.values()
    carriers = [n for f in functions for n in f.nodes if n is not node and subgraphs_of(n.op)]
    others = {sub.function for other in carriers for sub in subgraphs_of(other.op)}
    shared = len({*bodies}) < len(bodies) or others.intersection(bodies)
    return [] if shared else bodies


def _first_captured(node: Node) -> int:
    """The index of the first captured operand."""
    match node.op:
        case If():
            return 1
        case Loop(_, carried):
            return 2 + carried
        case Scan(_, _, carried, scanned):
            return carried + scanned
    return len(node.operands)


def _are_used(bodies: Sequence[Function], placeholders: Sequence[Placeholder]) -> bool:
    pairs = zip(bodies, placeholders, strict=True)
    return any(p.use_count or any(v is p for v in body.escaping()) for body, p in pairs)


def _moved_to_end(values: Sequence[ValueT], places: Sequence[int]) -> list[ValueT]:
    """The values with those at the given indices moved to the end."""
    others = [value for index, value in enumerate(values) if index not in places]
    return [*others, *(values[index] for index in places)]


SIMPLIFY_BODIES = RewritePass("simplify-bodies", (capture_unchanged, take_less))
