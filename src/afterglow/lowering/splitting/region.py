"""A region of nodes, computed band by band: which part of every value a band needs.

A band is a part of each output of the region along one axis. What it needs is found backwards, node
by node, from `Op.band`. Neighbouring bands may need the same rows of a value in between; each then
computes them for itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property, reduce

from afterglow.graph import Band, Cut, Node, Value
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType


@dataclass(frozen=True)
class Piece:
    """What one band has of one node: a part of its results, and how to compute it."""

    node: Node
    cut: Cut
    band: Band

    @property
    def start(self) -> int:
        """Where what the op computes begins; the part itself may begin behind it."""
        return self.cut.start - self.band.skip

    @cached_property
    def nbytes(self) -> int:
        """The bytes of what it computes."""
        return sum(self.cut.of(result.type).nbytes for result in self.node.results)


class Pieces:
    """The pieces of nodes; remembers them, because bands that end alike have the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[Node, Cut], Piece | None] = {}

    def piece(self, node: Node, cuts: Sequence[Cut]) -> Piece | None:
        """A node's part that holds all cuts; None if it cannot be cut so."""
        hull = reduce(Cut.hull, cuts)
        if any(cut.axis != hull.axis for cut in cuts):
            return None
        if (node, hull) not in self._known:
            self._known[node, hull] = _piece(node, hull)
        return self._known[node, hull]


@dataclass(frozen=True)
class BandOfRegion:
    """The pieces of one band, in order, and the part of each output that it gives."""

    pieces: tuple[Piece, ...]
    parts: dict[Value, Cut]

    def nbytes(self) -> int:
        """The bytes of all that it computes."""
        return sum(piece.nbytes for piece in self.pieces)

    def structure(self) -> Hashable:
        """What its memory depends on: equal for bands that differ only in where they lie."""
        starts: dict[Value, int] = {}
        numbers: dict[Value, int] = {}
        lines: list[Hashable] = []

        def relative(value: Value | None, cut: Cut | None) -> Hashable:
            if value is None or cut is None:
                return value and value.type
            if value not in numbers:
                return cut.of(value.type)
            return numbers[value], cut.start - starts[value], cut.extent

        for piece in self.pieces:
            reads = zip(piece.node.operands, piece.band.cuts, strict=True)
            lines.append((piece.band.op, tuple(relative(value, cut) for value, cut in reads)))
            for result in piece.node.results:
                numbers[result], starts[result] = len(numbers), piece.start
        return tuple(lines), tuple(relative(value, cut) for value, cut in self.parts.items())


class Region:
    """Nodes in an order in which they can run, and which of their results are needed outside."""

    def __init__(
        self, nodes: Sequence[Node], escaping: Iterable[Value], pieces: Pieces | None = None
    ) -> None:
        self.nodes = tuple(nodes)
        self.pieces = pieces or Pieces()
        self.results = {result: node for node in nodes for result in node.results}
        leaving = {value for value in escaping if value in self.results}
        members = {*nodes}
        self.outputs = [
            value
            for value in self.results
            if value in leaving or any(user not in members for user in value.users)
        ]

    def band(self, axis: int, index: int, count: int) -> BandOfRegion | None:
        """One of `count` bands along an axis of the outputs; None if a node cannot be cut so."""
        shapes = [value.type.shape for value in self.outputs]
        if any(axis >= len(shape) or shape[axis] < count for shape in shapes):
            return None
        parts = {value: part_of(value, axis, index, count) for value in self.outputs}
        needs = dict(parts)
        pieces: list[Piece] = []
        for node in reversed(self.nodes):
            cuts = [needs[result] for result in node.results if result in needs]
            if not cuts:
                continue
            piece = self.pieces.piece(node, cuts)
            if piece is None or not self._demand(piece, needs):
                return None
            pieces.append(piece)
        return BandOfRegion(tuple(pieces[::-1]), parts)

    def bands(self, axis: int, count: int) -> Iterator[BandOfRegion | None]:
        """All bands, in order."""
        return (self.band(axis, index, count) for index in range(count))

    def _demand(self, piece: Piece, needs: dict[Value, Cut]) -> bool:
        """Add what a piece reads of other nodes' results to what is needed."""
        if piece.node.predicate in self.results:
            return False
        for operand, cut in zip(piece.node.operands, piece.band.cuts, strict=True):
            if operand not in self.results:
                continue
            if cut is None or needs.get(operand, cut).axis != cut.axis:
                return False
            needs[operand] = needs.get(operand, cut).hull(cut)
        return True


def part_of(value: Value, axis: int, index: int, count: int) -> Cut:
    """One of `count` parts of a value that are as equal as can be."""
    extent = value.type.shape[axis]
    return Cut(axis, extent * index // count, extent * (index + 1) // count)


def widest(extent: int, count: int) -> int:
    """Of the widest of `count` parts, the one nearest to the middle, which has most neighbours."""
    parts = range(count)
    return max(
        parts, key=lambda i: (extent * (i + 1) // count - extent * i // count, -abs(2 * i - count))
    )


def types_of(node: Node) -> list[TensorType | None]:
    """The types of a node's operands."""
    return [None if operand is None else operand.type for operand in node.operands]


def _piece(node: Node, cut: Cut) -> Piece | None:
    if not node.op.pure:
        return None
    band = node.op.band(cut, node.results[0].type, types_of(node))
    return None if band is None else Piece(node, cut, band)
