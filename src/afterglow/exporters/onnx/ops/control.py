"""Control flow: functions that ops carry become graphs within the file."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports
from afterglow.graph import Node
from afterglow.ops.control import If, Loop, Scan


@exports(If)
def branches(n: NodeWriter) -> Sequence[str]:
    """Branches read captured values by their names."""
    condition, *captured = n.operands
    then, other = (
        n.body(subgraph.function, captured) for subgraph in (n.op.then_branch, n.op.else_branch)
    )
    count = len(n.node.results)
    return n.emit_all("If", (condition,), count, then_branch=then, else_branch=other)


def _is_exact(node: Node) -> bool:
    """Whether extents in the body of a loop are the same in each iteration."""
    return isinstance(node.op, Loop) and not node.op.iteration and not node.op.lengths


@exports(Loop, accepts=_is_exact)
def loop(n: NodeWriter) -> Sequence[str]:
    """The body is told whether to go on, which it does not ask for."""
    limit, condition, *values = n.operands
    carried, captured = values[: n.op.carried], values[n.op.carried :]
    body = n.body(n.op.body.function, captured, condition_at=1)
    return n.emit_all("Loop", (limit, condition, *carried), n.op.carried, body=body)


@exports(Scan)
def scan(n: NodeWriter) -> Sequence[str]:
    """Captured values are read by their names."""
    own, count = n.operands[: n.op.carried + n.op.scanned], len(n.node.results)
    body = n.body(n.op.body.function, n.operands[len(own) :])
    ways = {
        "scan_input_directions": [int(n.op.reverse)] * n.op.scanned,
        "scan_output_directions": [int(n.op.reverse)] * (count - n.op.carried),
    }
    given = {name: way for name, way in ways.items() if way}
    return n.emit_all("Scan", own, count, body=body, num_scan_inputs=n.op.scanned, **given)
