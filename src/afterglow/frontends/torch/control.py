"""Calls with graphs among their arguments, as the control flow of definitions.

There, bodies read the values around them by name. So what a call gives to all runs of a body alike
needs no place among its inputs, and a body is as ONNX's If, Loop and Scan have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from afterglow.frontends.definition.model import AttributeDef, AttributeKind, GraphDef
from afterglow.frontends.torch.registry import PROGRAM

if TYPE_CHECKING:
    from afterglow.frontends.torch.calls import Calls


def _graph(graph: GraphDef) -> AttributeDef:
    return AttributeDef(AttributeKind.GRAPH, graph)


def _cond(calls: Calls, node: Any) -> None:
    """`cond(condition, then, else, operands)`."""
    condition, *graphs, operands = node.args
    given = calls.operands(operands)
    (first,) = calls.operands([condition])
    bodies: dict[str, AttributeDef] = {}
    for name, graph in zip(("then_branch", "else_branch"), graphs, strict=True):
        inner = calls.inside(calls.attribute(graph).graph, graph.name, given)
        bodies[name] = _graph(inner.as_graph((), inner.operands(inner.results())))
    _add(calls, node, "If", bodies, [first])


def _while_loop(calls: Calls, node: Any) -> None:
    """`while_loop(condition, body, carried, others)`: both graphs take what is carried first.

    The condition is computed before the loop, and at the end of each run of the body.
    """
    condition, body, carried, others = node.args
    first, fixed = calls.operands(carried), calls.operands(others)
    begins = calls.inside(calls.attribute(condition).graph, f"{node.name}.before", [*first, *fixed])
    calls.take(begins)
    taken = [f"{node.name}.{body.name}.carried.{index}" for index in range(len(first))]
    inner = calls.inside(calls.attribute(body).graph, body.name, [*taken, *fixed])
    after = inner.operands(inner.results())
    again = inner.inside(calls.attribute(condition).graph, condition.name, [*after, *fixed])
    inner.take(again)
    unused = [f"{node.name}.iteration", f"{node.name}.goes_on"]
    goes_on = again.operands(again.results())
    graph = inner.as_graph([*unused, *taken], [*goes_on, *after])
    before = begins.operands(begins.results())
    _add(calls, node, "Loop", {"body": _graph(graph)}, ["", *before, *first])


def _scan(calls: Calls, node: Any) -> None:
    """`scan(body, carried, scanned, others)`: the body returns what is carried, then parts."""
    body, carried, scanned, others = node.args
    _add_scan(calls, node, body, (carried, scanned, others))


def _map(calls: Calls, node: Any) -> None:
    """`map_impl(body, scanned, others)`."""
    body, scanned, others = node.args
    _add_scan(calls, node, body, ((), scanned, others))


def _add_scan(calls: Calls, node: Any, body: Any, given: tuple[Any, Any, Any]) -> None:
    carried, scanned, fixed = map(calls.operands, given)
    count = len(carried) + len(scanned)
    taken = [f"{node.name}.{body.name}.taken.{index}" for index in range(count)]
    inner = calls.inside(calls.attribute(body).graph, body.name, [*taken, *fixed])
    graph = inner.as_graph(taken, inner.operands(inner.results()))
    parts = AttributeDef(AttributeKind.INT, len(scanned))
    _add(
        calls, node, "Scan", {"body": _graph(graph), "num_scan_inputs": parts}, [*carried, *scanned]
    )


def _wrapped(calls: Calls, node: Any) -> None:
    """A call that runs its graph once, such as `wrap_with_set_grad_enabled(enabled, graph, …)`."""
    place = next(i for i, each in enumerate(node.args) if _is_graph(each))
    graph, operands = node.args[place], node.args[place + 1 :]
    inner = calls.inside(calls.attribute(graph).graph, graph.name, calls.operands(operands))
    calls.take(inner)
    results = inner.operands(inner.results())
    picked = calls.picked(node)
    for index, name in enumerate(results):
        if index in picked and picked[index] not in calls.names:
            calls.names[picked[index]] = name
        elif index in picked:
            calls.add_alias(calls.names[picked[index]], name)


def _is_graph(argument: Any) -> bool:
    return getattr(argument, "op", "") == "get_attr"


def _add(
    calls: Calls,
    node: Any,
    op_type: str,
    attributes: Mapping[str, AttributeDef],
    operands: Sequence[str],
) -> None:
    calls.add_node(node, (PROGRAM, op_type), attributes, operands)


CONTROL: dict[str, Callable[[Calls, Any], None]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
    "wrap_with_set_grad_enabled": _wrapped,
    "wrap_with_autocast": _wrapped,
}
"""What translates calls of higher-order ops, by their names."""
