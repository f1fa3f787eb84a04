"""Rewrite a region into bands: slices of what it reads, its nodes once a band, concatenations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from afterglow.graph import Builder, Constant, Cut, Function, Module, Node, Value
from afterglow.lowering.splitting.region import Piece, Region, part_of
from afterglow.ops.movement import Concat, slice_axis
from afterglow.support.errors import CompileError


@dataclass(frozen=True)
class Split:
    """Compute the nodes from position `first` to position `last` in `count` bands along an axis."""

    first: int
    last: int
    axis: int
    count: int


@dataclass(frozen=True)
class Plan:
    """An order of a function's nodes, by their old positions, and splits of it that are apart."""

    order: tuple[int, ...]
    splits: tuple[Split, ...]

    def apply(self, function: Function) -> None:
        """Reorder and split a function; bands of a region run one after the other."""
        nodes = list(function.nodes)
        ordered = [nodes[position] for position in self.order]
        function.reorder(ordered)
        for split in self.splits:
            region = Region(ordered[split.first : split.last + 1], function.escaping())
            split_region(function, region, split.axis, split.count)


def split_region(function: Function, region: Region, axis: int, count: int) -> None:
    """Replace the nodes of a region, which follow each other, by bands."""
    parts: dict[Value, list[Value]] = {output: [] for output in region.outputs}
    before = region.nodes[-1].after
    for index in range(count):
        emitter = _BandEmitter(function, before, f".band{index}", {})
        emitter.emit(_pieces(region, axis, index, count))
        for output, found in parts.items():
            found.append(emitter.part(output, part_of(output, axis, index, count)))
    wholes = {
        output: Builder(function, before, name=output.name).emit(Concat(axis), *found)
        for output, found in parts.items()
    }
    for output, whole in wholes.items():
        function.replace(output, whole)
    for node in reversed(region.nodes):
        function.erase(node)
    for output, whole in wholes.items():
        function.rename(whole, output.name)


def band_function(region: Region, axis: int, index: int, count: int) -> Function:
    """One band alone, with what the region reads as inputs and parts of its outputs as outputs."""
    pieces = _pieces(region, axis, index, count)
    function = Function("band", Module("band"))
    read = dict.fromkeys(v for node in region.nodes for v in node.inputs())
    outside: dict[Value, Value] = {
        value: function.input(value.name, value.type)
        for value in read
        if value not in region.results and not isinstance(value, Constant)
    }
    emitter = _BandEmitter(function, None, "", outside)
    emitter.emit(pieces)
    for output in region.outputs:
        function.output(output.name, emitter.part(output, part_of(output, axis, index, count)))
    return function


def _pieces(region: Region, axis: int, index: int, count: int) -> list[Piece]:
    pieces = region.band(axis, index, count)
    if pieces is None:
        last = region.nodes[-1].name
        raise CompileError(f"the nodes up to {last} cannot be computed in bands along axis {axis}")
    return pieces


class _BandEmitter:
    """Emits the pieces of one band."""

    def __init__(
        self,
        function: Function,
        before: Node | None,
        suffix: str,
        outside: Mapping[Value, Value],
    ) -> None:
        self.function = function
        self.before = before
        self.suffix = suffix
        self.outside = outside
        self.made: dict[Value, tuple[Cut, Value]] = {}
        self.sliced: dict[tuple[Value, Cut], Value] = {}

    def emit(self, pieces: Sequence[Piece]) -> None:
        """Emit the pieces in order, each after the slices that it reads."""
        for piece in pieces:
            node, band = piece.node, piece.band
            operands = [
                None if operand is None else self.part(operand, cut)
                for operand, cut in zip(node.operands, band.cuts, strict=True)
            ]
            predicate = None if node.predicate is None else self.part(node.predicate, None)
            b = Builder(self.function, self.before, origin=node.origin, predicate=predicate)
            made = b.emit_all(band.op, *operands, name=node.name + self.suffix)
            whole = Cut(piece.cut.axis, piece.cut.start - band.skip, 0)
            for old, new in zip(node.results, made, strict=True):
                stop = whole.start + new.type.shape[whole.axis]
                self.made[old] = Cut(whole.axis, whole.start, stop), new

    def part(self, value: Value, cut: Cut | None) -> Value:
        """A part of a value, of what was emitted for it or of the value outside."""
        if value in self.made:
            there, new = self.made[value]
            assert cut is not None
            return self._sliced(new, Cut(cut.axis, cut.start - there.start, cut.stop - there.start))
        outside = self.outside.get(value, value)
        return outside if cut is None else self._sliced(outside, cut)

    def _sliced(self, value: Value, cut: Cut) -> Value:
        if cut.extent == value.type.shape[cut.axis]:
            return value
        if (value, cut) not in self.sliced:
            op = slice_axis(value.type, cut.axis, cut.start, cut.extent)
            b = Builder(self.function, self.before, name=value.name + self.suffix)
            self.sliced[value, cut] = b.emit(op, value)
        return self.sliced[value, cut]
