"""If and Loop with every value known: the host runs their bodies, and knows values as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from afterglow.frontends.base import RunBody
from afterglow.frontends.definition.bodies import BodyGraph
from afterglow.frontends.definition.chunks import Chunk, LoopChunks
from afterglow.frontends.definition.dialect import Importer
from afterglow.frontends.definition.frame import Frame
from afterglow.frontends.definition.model import (
    CHUNK,
    CUT_AXES,
    AttributeDef,
    GraphDef,
    ModelDef,
    ValueDef,
)
from afterglow.frontends.definition.order import free_names
from afterglow.support.errors import IndexRangeError, ModelError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

UNLIMITED = np.iinfo(np.int64).max
"""The limit of a loop that has none."""


@dataclass(frozen=True)
class HostNode:
    """A node of a model that is run on the host, and what its bodies need.

    `look_up` finds what a name around it stands for, and whether that is the same array each time.
    """

    operands: Sequence[Any]
    """Arrays, lists of them, or None."""
    attributes: Mapping[str, AttributeDef]
    model: ModelDef
    frame: Frame
    run_body: RunBody
    graphs: MutableMapping[object, BodyGraph]
    chunks: MutableMapping[int, LoopChunks]
    look_up: Callable[[str], tuple[Any, bool]]

    def graph(self, name: str) -> GraphDef:
        """A graph attribute."""
        attribute = self.attributes.get(name)
        if attribute is None or not isinstance(attribute.value, GraphDef):
            raise ModelError(f"attribute {name!r} must be a graph")
        return attribute.value

    def body(self, graph: GraphDef) -> HostBody:
        """A graph with all that it reads of the graphs around it."""
        fixed: dict[str, Array] = {}
        captured: dict[str, Any] = {}
        before = self.graphs.get(id(graph))  # which keeps it, so that no other has its identity
        for outer in free_names(graph) if before is None else before.outer_names:
            value, is_fixed = self.look_up(outer)
            (fixed if is_fixed else captured)[outer] = value
        attributes = self.frame.attributes
        if before is None or not before.has_same(attributes, fixed):
            before = BodyGraph(self.model, graph, self.frame.opsets, attributes, fixed)
            self.graphs[id(graph)] = before
        return HostBody(before, captured, self.run_body)


HostRun: TypeAlias = Callable[[HostNode], Sequence[Any]]
"""Returns what a node returns."""

HOST_RUNS: dict[Importer, HostRun] = {}
"""What runs the nodes of some importers with every value known, without importing them."""


@dataclass(frozen=True)
class HostBody:
    """A body with the outer values that it captures."""

    graph: BodyGraph
    captured: Mapping[str, Any]
    run_body: RunBody

    def run(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """What it returns."""
        names = self.graph.input_names
        if len(names) != len(inputs):
            raise ModelError(f"the body takes {len(names)} inputs, it is given {len(inputs)}")
        return self.run_body(self.graph, {**self.captured, **dict(zip(names, inputs, strict=True))})


def run_branch(node: HostNode) -> Sequence[Any]:
    """The results of one branch of an If."""
    condition = bool(_scalar(node.operands[0] if node.operands else None))
    return node.body(node.graph("then_branch" if condition else "else_branch")).run(())


def run_loop(node: HostNode) -> Sequence[Any]:
    """The body again and again, while the condition holds; values may change their shapes.

    Behind what the body returns come the number of iterations, and lengths of carried values.
    """
    limit, condition, *values = (*node.operands, None, None)[: max(2, len(node.operands))]
    most = UNLIMITED if limit is None else _limit(limit)
    goes_on = True if condition is None else bool(_scalar(condition))
    body = node.body(node.graph("body"))
    if len(body.graph.output_names) <= len(values):
        returned = len(body.graph.output_names) - 1
        raise ModelError(f"body returns {returned} values, but {len(values)} are carried")
    run = _LoopRun(node, body, values)
    while goes_on and run.iteration < most:
        goes_on = run.advance(most)
    stacked = stacked_parts(run.parts, body.graph.graph.output[1 + len(values) :])
    axes = node.attributes.get(CUT_AXES)
    lengths = () if axes is None else _lengths(axes.value, run.values)
    return (*run.values, *stacked, np.array([run.iteration]), *lengths)


class _LoopRun:
    """A loop that the host drives: iteration by iteration, then many of them at once."""

    def __init__(self, node: HostNode, body: HostBody, values: list[Any]) -> None:
        self.node = node
        self.body = body
        self.values = values
        self.iteration = 0
        self.parts: list[Sequence[Any]] = []
        """What iterations returned to be stacked, along a new first axis."""
        graph = body.graph.graph
        if id(graph) not in node.chunks:
            node.chunks[id(graph)] = LoopChunks(graph, is_chunk=CHUNK in node.attributes)
        self.chunks = node.chunks[id(graph)]

    def advance(self, most: int) -> bool:
        """Run another iteration, or more if that is known to be possible; whether to go on."""
        chunk = self.chunks.find()
        if chunk is None:
            return self._run_one()
        try:
            return self._run_chunk(chunk, most)
        except (UnsupportedError, IndexRangeError):  # of which an iteration alone says more
            self.chunks.possible = False
            return self._run_one()

    def _run_one(self) -> bool:
        number, carried = np.array(self.iteration, np.int64), len(self.values)
        first, *rest = self.body.run((number, np.array(True), *self.values))
        self.chunks.see(self.values, rest[:carried])
        self.values, self.iteration = rest[:carried], self.iteration + 1
        self.parts.append([one_row(part) for part in rest[carried:]])
        return _truth(first)

    def _run_chunk(self, chunk: Chunk, most: int) -> bool:
        body = self.node.body(chunk.graph)
        found = chunk.results(body.run(chunk.feed(self.iteration, most, self.values)))
        self.chunks.see(self.values, found.values)
        self.values, self.iteration = found.values, self.iteration + found.count
        self.parts.append(found.stacked)
        return _truth(found.goes_on)


def _scalar(value: Any) -> Any:
    """The only element of an array."""
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise ModelError("a single element is needed")
    return value.item()


def _limit(value: Any) -> int:
    """The number of iterations."""
    most = _scalar(value)
    if value.dtype.kind not in "iu":
        raise ModelError(f"the number of iterations must be an integer, got {value.dtype}")
    return int(most)


def _lengths(axes: Sequence[int], values: Sequence[Any]) -> list[Array | None]:
    """How long values are along the axes that the loop's reader may cut."""
    return [
        np.array([value.shape[axis]])
        if isinstance(value, np.ndarray) and -value.ndim <= axis < value.ndim
        else None
        for value, axis in zip(values, axes, strict=False)
    ]


def _truth(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise ModelError("the body must return first whether to go on, a single element")
    return bool(value.reshape(()))


def one_row(part: Any) -> Any:
    """What an iteration returned to be stacked, along a new first axis."""
    return part[np.newaxis] if isinstance(part, np.ndarray) else part


def stacked_parts(parts: Sequence[Sequence[Any]], declared: Sequence[ValueDef]) -> list[Array]:
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
