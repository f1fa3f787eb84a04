"""Rewrite a region into bands: slices of what it reads, its nodes once a band, concatenations."""

from __future__ import annotations

from collections.abc import Mapping

from afterglow.graph import Builder, Constant, Cut, Function, Module, Node, Origins, Value
from afterglow.lowering.splitting.region import BandOfRegion, Piece, Region
from afterglow.ops.movement import Concat, slice_axis
from afterglow.support.errors import CompileError
from afterglow.support.lazy_dataclass import dataclass


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
    for index, band in enumerate(region.bands(axis, count)):
        if band is None:
            last = region.nodes[-1].name
            raise CompileError(f"nodes up to {last} cannot be computed in bands along axis {axis}")
        emitter = _BandEmitter(function, before, f".band{index}", {})
        for output, part in emitter.emit(band).items():
            parts[output].append(part)
    wholes = {
        output: Builder(function, before, name=output.name, origins=_origins(output)).emit(
            Concat(axis), *found
        )
        for output, found in parts.items()
    }
    for output, whole in wholes.items():
        function.replace(output, whole)
    for node in reversed(region.nodes):
        function.erase(node)
    for output, whole in wholes.items():
        function.rename(whole, output.name)


def _origins(value: Value) -> Origins:
    return () if value.producer is None else value.producer.origins


def band_function(band: BandOfRegion) -> Function:
    """One band alone, with what it reads as inputs and its parts of the outputs as outputs."""
    function = Function("band", Module("band"))
    made = {result for piece in band.pieces for result in piece.node.results}
    read = dict.fromkeys(value for piece in band.pieces for value in piece.node.inputs())
    outside: dict[Value, Value] = {
        value: function.input(value.name, value.type)
        for value in read
        if value not in made and not isinstance(value, Constant)
    }
    for output, part in _BandEmitter(function, None, "", outside).emit(band).items():
        function.output(output.name, part)
    return function


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
        self.made: dict[Value, tuple[int, Value]] = {}
        """For each value, what was emitted for it, and where in the whole that begins."""
        self.sliced: dict[tuple[Value, Cut], Value] = {}

    def emit(self, band: BandOfRegion) -> dict[Value, Value]:
        """Emit the pieces in order, each after the slices that it reads; return the parts."""
        for piece in band.pieces:
            self._emit(piece)
        return {out: self._part(out, cut, _origins(out)) for out, cut in band.parts.items()}

    def _emit(self, piece: Piece) -> None:
        node, band = piece.node, piece.band
        operands = [
            None if operand is None else self._part(operand, cut, node.origins)
            for operand, cut in zip(node.operands, band.cuts, strict=True)
        ]
        predicate = (
            None if node.predicate is None else self._part(node.predicate, None, node.origins)
        )
        b = Builder(self.function, self.before, origins=node.origins, predicate=predicate)
        made = b.emit_all(band.op, *operands, name=node.name + self.suffix)
        self.made.update(
            (old, (piece.start, new)) for old, new in zip(node.results, made, strict=True)
        )

    def _part(self, value: Value, cut: Cut | None, origins: Origins) -> Value:
        """A part of a value, of what was emitted for it or of the value outside."""
        start, whole = self.made.get(value, (0, self.outside.get(value, value)))
        if cut is None:
            return whole
        return self._sliced(whole, Cut(cut.axis, cut.start - start, cut.stop - start), origins)

    def _sliced(self, value: Value, cut: Cut, origins: Origins) -> Value:
        if cut.extent == value.type.shape[cut.axis]:
            return value
        if (value, cut) not in self.sliced:
            op = slice_axis(value.type, cut.axis, cut.start, cut.extent)
            name = value.name + self.suffix
            b = Builder(self.function, self.before, name=name, origins=origins)
            self.sliced[value, cut] = b.emit(op, value)
        return self.sliced[value, cut]
