"""If, Loop and Scan where every value is known: the host drives their bodies (`host_loops.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afterglow.frontends.definition.context import (
    ComplexParts,
    Imported,
    KnownMap,
    NodeContext,
    RowList,
    RowMaps,
    StaticSequence,
)
from afterglow.frontends.definition.host_loops import (
    HostNode,
    HostRun,
    one_row,
    stacked_parts,
)
from afterglow.graph import Constant, Value
from afterglow.support.errors import UnsupportedError
from afterglow.types import Array


def drive(
    n: NodeContext, run: HostRun, operands: Sequence[Imported | None]
) -> list[Imported | None]:
    """What a node returns that is given these operands."""
    return [_imported(n, value) for value in run(_host_node(n, operands))]


def drive_scan(
    n: NodeContext, carried: Sequence[Value], scanned: Sequence[Value], length: int
) -> list[Value]:
    """The body once for each part of what is scanned along the first axis."""
    body = _host_node(n, ()).body(n.graph_attribute("body"))
    values = [n.value_of(value) for value in carried]
    columns = [n.value_of(value) for value in scanned]
    parts: list[Sequence[Any]] = []
    for index in range(length):
        results = body.run((*values, *(np.asarray(column[index]) for column in columns)))
        values = list(results[: len(values)])
        parts.append([one_row(part) for part in results[len(values) :]])
    stacked = stacked_parts(parts, body.graph.graph.output[len(values) :])
    return [n.constant(value) for value in (*values, *stacked)]


def _host_node(n: NodeContext, operands: Sequence[Imported | None]) -> HostNode:
    session, frame = n.graph.session, n.graph.frame
    assert session.run_body is not None

    def look_up(name: str) -> tuple[Any, bool]:
        value = n.graph.scope.look_up(name)
        if isinstance(value, Constant) and id(value.content) in session.cached:
            return value.data, True
        return _known(n, value), False

    return HostNode(
        [_known(n, operand) for operand in operands],
        n.attributes,
        session.model,
        frame,
        session.run_body,
        session.graphs,
        session.chunks,
        look_up,
    )


def _known(n: NodeContext, value: Imported | None) -> Any:
    """A value as a body is given it: an array, a list of them, or None."""
    match value:
        case None:
            return None
        case StaticSequence():
            return [n.value_of(element) for element in value]
        case RowList():
            return [row for part in value.parts for row in _rows(n, *part)]
        case ComplexParts():
            raise UnsupportedError("complex numbers in such a body are not supported")
        case KnownMap() | RowMaps():
            raise UnsupportedError("a map in the body of If, Loop or Scan is not supported")
        case Value():
            return n.value_of(value)


def _rows(n: NodeContext, rows: Value, present: Value | None) -> list[Array]:
    """The rows that there are."""
    found = n.value_of(rows)
    return [np.asarray(row) for row in (found if present is None else found[n.value_of(present)])]


def _imported(n: NodeContext, value: Any) -> Imported | None:
    if isinstance(value, list):
        return StaticSequence(n.constant(element) for element in value)
    return None if value is None else n.constant(value)
