"""The error for a node that cannot be differentiated: it tells which, why, and on which path."""

from __future__ import annotations

from collections.abc import Container, Sequence

from afterglow.graph import Node, Value
from afterglow.graph.printer import excerpt
from afterglow.ops.control import Loop
from afterglow.support.errors import UnsupportedError
from afterglow.types.extent import is_ranged

MOST_NAMED = 3
"""Names at each end of a path; between them and the node in question, the rest is left out."""


def no_gradient(
    node: Node, ys: Sequence[Value], variables: Container[Value], varying: Container[Value]
) -> UnsupportedError:
    """The error for a node between `variables` and `ys`; `varying` values depend on the former."""
    function = node.function.name if node.function is not None else ""
    origin = f" ({node.origin})" if node.origin else ""
    above, below = _way_up(node, ys), _way_down(node, variables, varying)
    if len(above) > MOST_NAMED:
        above = [*above[:MOST_NAMED], "…"]
    if len(below) > MOST_NAMED:
        below = ["…", *below[-MOST_NAMED:]]
    shown = excerpt(node.op, tuple(node.operands), node.name)
    path = " <- ".join((*above, _name(node), *below))
    return UnsupportedError(
        f"{node.op.mnemonic} has no gradient{_reason(node)}, and node {_name(node)!r} needs one",
        where=f"in function @{function}, node %{node.name}{origin}",
        excerpt=[*shown, f"  on the path {path}"],
        help="compute it from ops that have one, or differentiate only what comes after it",
    )


def _reason(node: Node) -> str:
    if not isinstance(node.op, Loop):
        return ""
    if is_ranged(node.op.iteration) or node.op.lengths:
        return ", as values that it carries grow"
    return ", as data decide how often it runs"


def _name(node: Node) -> str:
    return node.origin or node.name


def _way_up(node: Node, ys: Sequence[Value]) -> list[str]:
    """The names of nodes from a result to a node, without it."""
    before: dict[Node, Node | None] = {node: None}
    pending = [node]
    while pending:
        at = pending.pop(0)
        if any(result in ys for result in at.results):
            return [_name(step) for step in _followed(at, before)][:-1]
        fresh = [user for result in at.results for user in result.users if user not in before]
        before.update(dict.fromkeys(fresh, at))
        pending.extend(dict.fromkeys(fresh))
    return []


def _followed(node: Node, before: dict[Node, Node | None]) -> list[Node]:
    path = [node]
    while (last := before[path[-1]]) is not None:
        path.append(last)
    return path


def _way_down(node: Node, variables: Container[Value], varying: Container[Value]) -> list[str]:
    """The names of nodes from a node, without it, to a variable, with its own name."""
    names: list[str] = []
    at: Node | None = node
    while at is not None:
        value = next(value for value in at.given if value in varying)
        at = None if value in variables else value.producer
        names.append(value.name if at is None else _name(at))
    return names
