"""The gradient of an if: an if whose branches compute those of its branches."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.autodiff.rule import Context, emit_if_missing, erase_unused
from afterglow.graph import Builder, Function, Gradients, Node, Subgraph, Value
from afterglow.graph.function import Cloner
from afterglow.ops.control import If


def if_gradient(c: Context, node: Node, grads: Gradients) -> Gradients:
    """Emit the gradients of captured values; a branch computes again what it needs."""
    assert isinstance(node.op, If)
    condition, *captured = node.given
    wanted = [i for i, value in enumerate(captured) if value in c.varying]
    known = {i: grad for i, grad in enumerate(grads) if grad is not None}
    branches = (node.op.then_branch.function, node.op.else_branch.function)
    bodies = [Subgraph(_gradient_of(c, node, body, wanted, [*known])) for body in branches]
    found = c.b.emit_all(If(*bodies), condition, *captured, *known.values())
    by_operand = dict(zip(wanted, found, strict=True))
    return (None, *(by_operand.get(i) for i in range(len(captured))))


def _gradient_of(
    c: Context, node: Node, branch: Function, wanted: Sequence[int], known: Sequence[int]
) -> Function:
    """A function of the captured values and gradients of results: the gradients of the former."""
    assert node.function is not None
    copies = Cloner(branch, node.function.module.new_function(f"{branch.name}.gradient"))
    body = copies.run()
    ys = [body.outputs[i].value for i in known]
    xs: list[Value] = [body.inputs[i] for i in wanted]
    seeds = [body.input("gradient", y.type) for y in ys]
    b = Builder(body, origins=node.origins)
    found = c.differentiate(b, ys, xs, seeds)
    body.outputs.clear()
    for index, (x, grad) in enumerate(zip(xs, found, strict=True)):
        body.output(f"result_{index}", emit_if_missing(b, grad, x.type))
    erase_unused(body)
    return body
