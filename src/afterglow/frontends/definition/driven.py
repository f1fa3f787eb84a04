"""If, Loop and Scan where every value is known: the host drives their bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afterglow.frontends.base import RunBody
from afterglow.frontends.definition.bodies import BodyGraph
from afterglow.frontends.definition.chunks import Chunk, LoopChunks
from afterglow.frontends.definition.context import (
    ComplexParts,
    Imported,
    KnownMap,
    NodeContext,
    RowList,
    RowMaps,
    StaticSequence,
)
from afterglow.frontends.definition.model import CHUNK, CUT_AXES, GraphDef, ValueDef
from afterglow.frontends.definition.order import free_names
from afterglow.graph import Constant, Value
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array


@dataclass(frozen=True)
class _Body:
    """A body with the outer values that it captures."""

    graph: BodyGraph
    captured: Mapping[str, Any]
    run_body: RunBody

    def run(self, inputs: Sequence[Any]) -> Sequence[Any]:
        names = self.graph.input_names
        if len(names) != len(inputs):
            raise ModelError(f"the body takes {len(names)} inputs, it is given {len(inputs)}")
        return self.run_body(self.graph, {**self.captured, **dict(zip(names, inputs, strict=True))})


def drive_branch(n: NodeContext, name: str) -> list[Imported | None]:
    """The results of one branch of an If."""
    return [_imported(n, value) for value in _body(n, name).run(())]


def drive_loop(
    n: NodeContext, limit: Value, condition: Value, carried: Sequence[Imported | None]
) -> list[Imported | None]:
    """The body again and again, while the condition holds; values may change their shapes.

    Behind what the body returns come the number of iterations, and lengths of carried values.
    """
    if not limit.type.dtype.is_integer:
        raise ModelError(f"the number of iterations must be an integer, got {limit.type}")
    most, goes_on = int(n.value_of(limit)), bool(n.value_of(condition))
    body, values = _body(n, "body"), [_known(n, value) for value in carried]
    if len(body.graph.output_names) <= len(values):
        returned = len(body.graph.output_names) - 1
        raise ModelError(f"body returns {returned} values, but {len(values)} are carried")
    run = _LoopRun(n, body, values)
    while goes_on and run.iteration < most:
        goes_on = run.advance(most)
    declared = body.graph.graph.output[1 + len(values) :]
    stacked = _stacked(run.parts, declared)
    results = (*run.values, *stacked, np.array([run.iteration]), *_lengths(n, run.values))
    return [_imported(n, value) for value in results]


class _LoopRun:
    """A loop that the host drives: iteration by iteration, then many of them at once."""

    def __init__(self, n: NodeContext, body: _Body, values: list[Any]) -> None:
        self.n = n
        self.body = body
        self.values = values
        self.iteration = 0
        self.parts: list[Sequence[Any]] = []
        """What iterations returned to be stacked, along a new first axis."""
        graph = body.graph.graph
        new = LoopChunks(graph, is_chunk=n.has(CHUNK))
        self.chunks = n.graph.session.chunks.setdefault(id(graph), new)

    def advance(self, most: int) -> bool:
        """Run another iteration, or more if that is known to be possible; whether to go on."""
        chunk = self.chunks.find()
        if chunk is None:
            return self._run_one()
        try:
            return self._run_chunk(chunk, most)
        except UnsupportedError:
            self.chunks.possible = False
            return self._run_one()

    def _run_one(self) -> bool:
        number, carried = np.array(self.iteration, np.int64), len(self.values)
        first, *rest = self.body.run((number, np.array(True), *self.values))
        self.chunks.see(self.values, rest[:carried])
        self.values, self.iteration = rest[:carried], self.iteration + 1
        self.parts.append([_row(part) for part in rest[carried:]])
        return _truth(first)

    def _run_chunk(self, chunk: Chunk, most: int) -> bool:
        body = _body_of(self.n, chunk.graph)
        found = chunk.results(body.run(chunk.feed(self.iteration, most, self.values)))
        self.chunks.see(self.values, found.values)
        self.values, self.iteration = found.values, self.iteration + found.count
        self.parts.append(found.stacked)
        return _truth(found.goes_on)


def _lengths(n: NodeContext, values: Sequence[Any]) -> list[Array | None]:
    """How long values are along the axes that the loop's reader may cut."""
    axes = n.integers(CUT_AXES, ())
    return [
        np.array([value.shape[axis]])
        if isinstance(value, np.ndarray) and -value.ndim <= axis < value.ndim
        else None
        for value, axis in zip(values, axes, strict=False)
    ]


def drive_scan(
    n: NodeContext, carried: Sequence[Value], scanned: Sequence[Value], length: int
) -> list[Value]:
    """The body once for each part of what is scanned along the first axis."""
    body, values = _body(n, "body"), [n.value_of(value) for value in carried]
    columns = [n.value_of(value) for value in scanned]
    parts: list[Sequence[Any]] = []
    for index in range(length):
        results = body.run((*values, *(np.asarray(column[index]) for column in columns)))
        values = list(results[: len(values)])
        parts.append([_row(part) for part in results[len(values) :]])
    stacked = _stacked(parts, body.graph.graph.output[len(values) :])
    return [n.constant(value) for value in (*values, *stacked)]


def _body(n: NodeContext, name: str) -> _Body:
    """The graph attribute `name`, with all that it reads of the graphs around it."""
    return _body_of(n, n.graph_attribute(name))


def _body_of(n: NodeContext, graph: GraphDef) -> _Body:
    session, frame = n.graph.session, n.graph.frame
    assert session.run_body is not None
    fixed: dict[str, Array] = {}
    captured: dict[str, Any] = {}
    before = session.graphs.get(id(graph))  # which keeps it, so that no other has its identity
    for outer in free_names(graph) if before is None else before.outer_names:
        value = n.graph.scope.look_up(outer)
        if isinstance(value, Constant) and id(value.content) in session.cached:
            fixed[outer] = value.data
        else:
            captured[outer] = _known(n, value)
    if before is None or not before.has_same(frame.attributes, fixed):
        before = BodyGraph(session.model, graph, frame.opsets, frame.attributes, fixed)
        session.graphs[id(graph)] = before
    return _Body(before, captured, session.run_body)


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


def _truth(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise ModelError("the body must return first whether to go on, a single element")
    return bool(value.reshape(()))


def _row(part: Any) -> Any:
    """What an iteration returned to be stacked, along a new first axis."""
    return part[np.newaxis] if isinstance(part, np.ndarray) else part


def _stacked(parts: Sequence[Sequence[Any]], declared: Sequence[ValueDef]) -> list[Array]:
    """What the iterations returned besides carried values, each along a new first axis."""
    if not parts:
        return [no_parts(info) for info in declared]
    columns = list(zip(*parts, strict=True))
    for column, info in zip(columns, declared, strict=True):
        shapes = {part.shape[1:] if isinstance(part, np.ndarray) else None for part in column}
        if None in shapes:
            raise UnsupportedError(f"{info.name!r} is stacked, and so must be a tensor")
        if len(shapes) > 1:
            raise ModelError(
                f"{info.name!r} has different shapes in iterations, and cannot be stacked"
            )
    return [np.concatenate(column) for column in columns]


def no_parts(info: ValueDef) -> Array:
    """What a loop that does not run stacks: of the declared type, with 0 for open extents."""
    type = info.type
    if type is None or type.element is None or type.shape is None:
        raise UnsupportedError(
            f"no iteration runs, so the shape of {info.name!r} is not known",
            help="declare the type of what the body returns",
        )
    extents = [extent if isinstance(extent, int) else 0 for extent in type.shape]
    return np.empty((0, *extents), type.element.numpy)
