"""Rows of a stored matrix, taken from the panels that products read."""

from __future__ import annotations

import math

from afterglow.backends.cpu.kernels.stored.few_rows import few_rows_tile, row_forms
from afterglow.backends.cpu.kernels.stored.panels import PanelPointers, StoredPanels
from afterglow.backends.cpu.llvm.emitter import (
    Value,
    constant_vector,
    convert,
    quotient,
    remainder,
)
from afterglow.backends.cpu.micro.fusion import SinkRow
from afterglow.backends.cpu.micro.index_check import IndexCheck
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase
from afterglow.types.dtype import f32, i32, u32


def gather_panels(r: KernelRequest) -> StoredPanels:
    """The panels as the product with one row has them, so that both read the same memory."""
    tile = few_rows_tile(r, 1, row_forms(r, 1)[0])
    return StoredPanels.of(r.step, tile.columns, tile.lanes)


def gather_needs(r: KernelRequest) -> KernelNeeds:
    """All parts of the matrix are packed."""
    return KernelNeeds(packed=gather_panels(r).parts)


def write_gather(k: Kernel) -> None:
    """Write a look-up; a unit is an index."""
    panels = gather_panels(k)
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
            at = self._lane(self.at.panel(quotient(row, width)), remainder(row, width))
            self._row(at, self.sink.row(unit))

    def _lane(self, at: PanelPointers, lane: Value) -> PanelPointers:
        zero = None if at.zero is None else at.zero + lane
        return PanelPointers(self.panels, at.words + lane, at.scale + lane, zero)

    def _row(self, at: PanelPointers, out: SinkRow) -> None:
        """The words of a row, then the numbers that are left."""
        own = self.panels
        shifts = constant_vector(self.e, u32, [own.bits * i for i in range(own.per_word)])
        whole = own.depth // own.per_word
        with self.e.loop(whole, name="word") as word:
            out.put(word * own.per_word, self._numbers(at, word, shifts))
        for place in range(whole * own.per_word, own.depth):
            shift = self.e.constant(u32, own.bits * (place % own.per_word))
            out.put(place, self._numbers(at, self.e.index(whole), shift))

    def _numbers(self, at: PanelPointers, word: Value, shifts: Value) -> Value:
        """The reals of a word that has been shifted."""
        own = self.panels
        block = quotient(word * own.per_word, own.block_size) if own.block_size else 0
        line, lanes = block * own.width, shifts.lanes
        words = (at.words + word * own.width).load().splat(lanes)
        numbers = own.number(words, shifts)
        if at.zero is not None:
            numbers = numbers - convert((at.zero + line).load(), i32).splat(lanes)
        elif own.middle:
            numbers = numbers - own.middle
        scale = convert((at.scale + line).load(), f32)
        return convert(numbers, f32) * scale.splat(lanes)
