"""Few planes that become neighbours, or the reverse: images and their channels."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Pointer, Value, shuffle
from afterglow.backends.cpu.micro.move.axes import MoveCut, StridedMove
from afterglow.backends.cpu.micro.move.blocks import Blocks, write_powers
from afterglow.backends.cpu.micro.move.place import MemoryPlace, ResultPlace
from afterglow.types.extent import is_ranged, largest

MOST_PLANES = 4
"""Planes from which on tiles are turned instead."""
MOST_LANES = 16
VECTORS_OF_BLOCK = 64
"""Vectors of a plane that one piece has at most."""


class Weave:
    """Planes woven together: result[i, plane] = operand[plane, i], the result without gaps."""

    def __init__(self, lanes: int, move: StridedMove, fast: int) -> None:
        self.planes, self.plane_step = move.extents[-1], move.source[-1]
        self.lanes = min(lanes, MOST_LANES)
        extent = move.extents[fast]
        self.blocks = Blocks(extent, self.lanes, self.lanes * VECTORS_OF_BLOCK)
        self.cut = MoveCut(self.blocks.count, self.planes * self.blocks.most)

    @staticmethod
    def fits(move: StridedMove, fast: int) -> bool:
        """Whether the result is written without gaps along the two axes."""
        planes = move.extents[-1]
        return _are_few(planes) and move.to[-1] == 1 and move.to[fast] == planes

    def write(self, e: Emitter, out: ResultPlace, piece: Index, to: Index, source: Pointer) -> None:
        """Weave a block of each plane."""
        assert isinstance(out, MemoryPlace)
        result = out.pointer + to

        def weave(index: Index, lanes: int) -> None:
            place, at = source + index, result + index * self.planes
            planes = [place.load(n * self.plane_step, lanes) for n in range(self.planes)]
            for number, woven in enumerate(_woven(planes)):
                at.store(woven, number * lanes)

        def rest(start: Index, left: Index) -> None:
            write_powers(e, start, left, self.lanes, weave)

        self.blocks.write(e, piece, lambda index: weave(index, self.lanes), rest)


class Unweave:
    """The reverse: result[plane, i] = operand[i, plane], the operand without gaps."""

    def __init__(self, lanes: int, move: StridedMove, fast: int) -> None:
        self.planes, self.plane_step = move.extents[fast], move.to[fast]
        self.lanes = min(lanes, MOST_LANES)
        extent = move.extents[-1]
        self.blocks = Blocks(extent, self.lanes, self.lanes * VECTORS_OF_BLOCK)
        self.cut = MoveCut(self.blocks.count, self.planes * self.blocks.most)

    @staticmethod
    def fits(move: StridedMove, fast: int) -> bool:
        """Whether the operand lies without gaps along the two axes."""
        planes = move.extents[fast]
        return _are_few(planes) and move.source[-1] == planes

    def write(self, e: Emitter, out: ResultPlace, piece: Index, to: Index, source: Pointer) -> None:
        """Take a block of all planes apart."""
        lines = [out.at(to + n * self.plane_step) for n in range(self.planes)]

        def unweave(column: Index, lanes: int) -> None:
            place = source + column * self.planes
            woven = [place.load(n * lanes, lanes) for n in range(self.planes)]
            for line, plane in zip(lines, _unwoven(woven), strict=True):
                line.put(column, plane, lanes)

        def rest(start: Index, left: Index) -> None:
            write_powers(e, start, left, self.lanes, unweave)

        self.blocks.write(e, piece, lambda column: unweave(column, self.lanes), rest)


def _are_few(planes: int) -> bool:
    return largest(planes) <= MOST_PLANES and not is_ranged(planes)


def _woven(planes: Sequence[Value]) -> list[Value]:
    """The first lane of each plane, then the second of each, and so on, as many vectors."""
    count, lanes = len(planes), planes[0].lanes
    places = range(count * lanes)
    wanted = [(place % count, place // count) for place in places]
    return [_picked(planes, wanted[at : at + lanes]) for at in range(0, len(wanted), lanes)]


def _unwoven(woven: Sequence[Value]) -> list[Value]:
    """Every count-th lane of all vectors together, from each start."""
    count, lanes = len(woven), woven[0].lanes
    return [
        _picked(woven, [divmod(lane * count + plane, lanes) for lane in range(lanes)])
        for plane in range(count)
    ]


def _picked(vectors: Sequence[Value], wanted: Sequence[tuple[int, int]]) -> Value:
    """A vector whose lanes are lanes of several: of each, the vector's number and the lane's.

    The first two are mixed, then that with the next, and so on.
    """
    lanes = len(wanted)
    first, *others = sorted({number for number, _ in wanted})
    places = [lane if number == first else -1 for number, lane in wanted]
    result = vectors[first]
    for other in others:
        news = [lanes + lane if number == other else -1 for number, lane in wanted]
        mixed = [new if new >= 0 else old for new, old in zip(news, places, strict=True)]
        result = shuffle(result, vectors[other], mixed)
        places = [at if place >= 0 else -1 for at, place in enumerate(mixed)]
    return result if others else shuffle(result, None, places)
