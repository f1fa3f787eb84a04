"""Many iterations of a loop that the host drives, as one graph.

What bounds a loop may not be known when it is compiled: its limit is another number in each call,
or only its condition ends it. A limited number of iterations can be compiled all the same, with
memory for what they may append; the host runs as many of these chunks as it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afterglow.frontends.definition.model import (
    CHUNK,
    CUT_AXES,
    AttributeDef,
    AttributeKind,
    GraphDef,
    NodeDef,
    ValueDef,
    constant,
)
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

ITERATIONS = 128
"""Iterations of a chunk, at most."""

OBSERVED = 6
"""Iterations that run one by one before others run in chunks: by then it is seen what grows.

They are fewer than those after which one alone is worth compiling.
"""

_FIRST, _LEFT, _GOES_ON, _COUNT = "\0first", "\0left", "\0on", "\0count"


@dataclass(frozen=True)
class Chunk:
    """Iterations of a loop as a graph, with the axes along which carried values may grow.

    The graph takes the number of the first iteration, how many there are to run, and what is
    carried. It returns whether to go on, how many iterations ran, what is carried, what is stacked,
    and how long values are that grow.
    """

    graph: GraphDef
    axes: Mapping[int, int]
    carried: int

    @staticmethod
    def of(body: GraphDef, axes: Mapping[int, int]) -> Chunk:
        """The iterations of a loop with a body."""
        carried = len(body.input) - 2
        stacked = len(body.output) - 1 - carried
        rooms = [f"\0room{place}" for place in range(carried)]
        rows = [f"\0rows{place}" for place in range(stacked)]
        lengths = [f"\0length{place}" if place in axes else "" for place in range(carried)]
        before = [f"\0before{place}" for place in range(carried)]
        found = [_GOES_ON, _COUNT, *rooms, *rows, *filter(None, lengths)]
        outputs = (_GOES_ON, _COUNT, *rooms, *rows, "\0trips", "", "", *lengths)
        attributes = {
            "body": AttributeDef(AttributeKind.GRAPH, _counting(body)),
            CHUNK: AttributeDef(AttributeKind.INT, 1),
            CUT_AXES: AttributeDef(
                AttributeKind.INTS, (0, 0, *(axes.get(place, 0) for place in range(carried)))
            ),
        }
        given = ("\0most", "\0true", "\0true", "\0zero", *before)
        loop = NodeDef("Loop", "", "chunk", given, outputs, attributes)
        inputs = [_FIRST, _LEFT, *before]
        constants = (
            constant("\0most", np.array(ITERATIONS)),
            constant("\0true", np.array(True)),
            constant("\0zero", np.array(0)),
        )
        return Chunk(
            GraphDef(
                f"{body.name}.chunk",
                (loop,),
                tuple(map(ValueDef, inputs)),
                tuple(map(ValueDef, found)),
                constants,
            ),
            axes,
            carried,
        )

    def feed(self, first: int, most: int, values: Sequence[Any]) -> tuple[Any, ...]:
        """What the graph is given to go on from an iteration."""
        left = min(most - first, ITERATIONS)
        return np.array(first, np.int64), np.array(left, np.int64), *values

    def results(self, returned: Sequence[Any]) -> ChunkResults:
        """What the graph returned, without the memory that is not used."""
        goes_on, ran, *others = returned
        values, others = others[: self.carried], others[self.carried :]
        stacked, count = len(others) - len(self.axes), int(ran.item())
        for (place, axis), length in zip(sorted(self.axes.items()), others[stacked:], strict=True):
            window = [slice(None)] * values[place].ndim
            window[axis] = slice(0, int(length.item()))
            values[place] = values[place][tuple(window)]
        return ChunkResults(goes_on, values, [rows[:count] for rows in others[:stacked]], count)


@dataclass(frozen=True)
class ChunkResults:
    """What some iterations returned: the last ones, and rows of what is stacked."""

    goes_on: Any
    values: list[Any]
    stacked: list[Array]
    count: int


class LoopChunks:
    """What is known of a loop that the host drives: which carried values grow, and along what."""

    def __init__(self, body: GraphDef, *, is_chunk: bool) -> None:
        self.body = body
        self.possible = not is_chunk
        self._seen = 0
        self._axes: dict[int, int] = {}
        self._chunk: Chunk | None = None

    def see(self, before: Sequence[Any], after: Sequence[Any]) -> None:
        """Note which values changed their shapes."""
        self._seen += 1
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            tensors = isinstance(old, np.ndarray) and isinstance(new, np.ndarray)
            if not tensors or (old.shape != new.shape and not self._grows(place, old, new)):
                self.possible = False

    def _grows(self, place: int, old: Array, new: Array) -> bool:
        pairs = enumerate(zip(old.shape, new.shape, strict=False))
        axes = {axis for axis, (one, other) in pairs if one != other}
        if old.ndim != new.ndim or len(axes) > 1:
            return False
        if place not in self._axes:
            self._axes[place], self._chunk = min(axes), None
        return axes == {self._axes[place]}

    def find(self) -> Chunk | None:
        """Iterations to run at once, if enough is known."""
        if not self.possible or self._seen < OBSERVED:
            return None
        if self._chunk is None:
            self._chunk = Chunk.of(self.body, dict(self._axes))
        return self._chunk


def _counting(body: GraphDef) -> GraphDef:
    """A body that begins with another iteration than the first, and returns whether to go on."""
    number, goes_on, *carried = body.input
    returned, *others = body.output
    shape, one, last = "\0shape", "\0one", returned.name
    before = (
        NodeDef("Add", "", "", ("\0iteration", _FIRST), (number.name,)),
        NodeDef("Identity", "", "", ("\0goes_on",), (goes_on.name,)),
    )
    after = (
        NodeDef("Reshape", "", "", (last, shape), ("\0wanted",)),
        NodeDef("Add", "", "", ("\0iteration", one), ("\0next",)),
        NodeDef("Less", "", "", ("\0next", _LEFT), ("\0more",)),
        NodeDef("And", "", "", ("\0wanted", "\0more"), ("\0proceeds",)),
    )
    constants = (
        constant(shape, np.array([], np.int64)),
        constant(one, np.array(1, np.int64)),
    )
    names = ("\0iteration", "\0goes_on", "\0was_on", "\0before")
    return GraphDef(
        body.name,
        (*before, *body.node, *after),
        (*map(ValueDef, names), *carried),
        (*map(ValueDef, ("\0proceeds", "\0wanted", "\0next")), *others),
        (*body.constants, *constants),
        body.types,
    )
