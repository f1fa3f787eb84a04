"""Rows of a stored matrix, taken from the panels that products read."""

from __future__ import annotations

import math

from afterglow.backends.cpu.kernels.stored.panels import CHUNK, QUADS, PanelPointers, StoredPanels
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    part,
    quotient,
    reinterpret,
    remainder,
    vector,
)
from afterglow.backends.cpu.micro.fusion import SinkRow
from afterglow.backends.cpu.micro.index_check import IndexCheck
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase
from afterglow.types.dtype import f32, i32, u8


def gather_needs(r: KernelRequest) -> KernelNeeds:
    """All parts of the matrix are packed."""
    return KernelNeeds(packed=StoredPanels.of(r.step, r.target).parts)


def write_gather(k: Kernel) -> None:
    """Write a look-up; a unit is an index."""
    panels = StoredPanels.of(k.step, k.target)
    units = math.prod(k.step.required[0].type.shape)
    with k.phase(units, 8.0 * units * panels.depth) as p:
        _Gather(p, panels).write()


class _Gather:
    """The function that takes rows."""

    def __init__(self, p: Phase, panels: StoredPanels) -> None:
        self.p, self.e, self.panels = p, p.e, panels
        self.at = panels.pointers(p)
        self.source, self.sink = p.source(0), p.sink()
        self.check = IndexCheck(p, "indices")

    def write(self) -> None:
        """Write all of it."""
        columns = (self.source.buffer.type.shape or (1,))[-1]
        with self.p.units() as unit:
            index = self.source.row(quotient(unit, columns)).load(remainder(unit, columns))
            row = self.check.place(index)
            width = self.panels.width
            at = self.at.panel(quotient(row, width)).lane(remainder(row, width))
            self._row(at, self.sink.row(unit))

    def _row(self, at: PanelPointers, out: SinkRow) -> None:
        """The chunks of a row, then the numbers that are left."""
        whole, rest = divmod(self.panels.depth, CHUNK)
        with self.e.loop(whole, name="chunk") as chunk:
            for span, numbers in enumerate(self._numbers(at, chunk)):
                out.put(chunk * CHUNK + span * self.panels.span, numbers)
        if not rest:
            return
        last = [x.lane(i) for x in self._numbers(at, self.e.index(whole)) for i in range(x.lanes)]
        for place, number in enumerate(last[:rest]):
            out.put(whole * CHUNK + place, number)

    def _numbers(self, at: PanelPointers, chunk: Value) -> list[Value]:
        """The reals of a chunk, by spans."""
        own, words = self.panels, at.chunk(chunk, lanes=1)
        quads = [words.quad(number)[0] for number in range(QUADS)]
        numbers = convert(reinterpret(vector(quads), u8), i32)
        return [
            self._reals(at, own.block_at(chunk, span), part(numbers, span * own.span, own.span))
            for span in range(own.spans)
        ]

    def _reals(self, at: PanelPointers, block: Index, numbers: Value) -> Value:
        """Numbers of a block as reals."""
        line, lanes = block * self.panels.width, numbers.lanes

        def one(pointer: Pointer) -> Value:
            return (pointer + line).load()

        if at.zero is not None:
            numbers = numbers - convert(one(at.zero), i32).splat(lanes)
        elif self.panels.middle:
            numbers = numbers - self.panels.middle
        reals = convert(self.panels.numbers(numbers), f32) * convert(one(at.scale), f32).splat(
            lanes
        )
        if at.minimum is None:
            return reals
        return reals + convert(one(at.minimum), f32).splat(lanes)
