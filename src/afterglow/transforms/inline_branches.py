"""Inline the taken branch of an If with a constant condition."""

from __future__ import annotations

from afterglow.graph import Builder, Constant, Function, Node, Value
from afterglow.ops.control import If
from afterglow.passes import Replacement, RewritePass, rewrite


@rewrite(If)
def inline_known_branch(node: Node, b: Builder) -> Replacement:
    """if(true, f, g)(x…)  ->  the nodes of f, of x…;  if(false, f, g)  ->  those of g."""
    match node:
        case Node(If(then_branch, else_branch), [Constant(condition), *captured]):
            branch = (then_branch if condition else else_branch).function
            return None if branch.updates else inline(b, branch, captured)
    return None


def inline(b: Builder, function: Function, operands: list[Value | None]) -> list[Value]:
    """Emit copies of a function's nodes, of these operands, and return its outputs."""
    values: dict[Value | None, Value | None] = {}
    values.update(zip(function.inputs, operands, strict=True))
    for node in function.nodes:
        mapped = (values.get(operand, operand) for operand in node.operands)
        copy = b.emit_node(node.op, *mapped, name=node.name, origins=node.origins)
        if node.predicate is not None:
            copy.predicate = values.get(node.predicate, node.predicate)
        values.update(zip(node.results, copy.results, strict=True))
    outputs = (values.get(output.value, output.value) for output in function.outputs)
    return [value for value in outputs if value is not None]


INLINE_BRANCHES = RewritePass("inline-branches", (inline_known_branch,))
