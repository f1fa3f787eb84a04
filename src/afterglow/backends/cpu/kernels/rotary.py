"""Rotary position embedding: each element is read once, and written once."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Value,
    convert,
    deinterleave,
    fma,
    interleave,
)
from afterglow.backends.cpu.micro.cost import ELEMENTWISE_STEP, work_of
from afterglow.backends.cpu.micro.kernel import Kernel, Phase
from afterglow.backends.cpu.micro.lanes import fitting_lanes, full_lanes
from afterglow.backends.cpu.micro.move.blocks import powers
from afterglow.backends.cpu.micro.reduction_lines import arithmetic_type
from afterglow.backends.cpu.micro.rows import Row
from afterglow.ops.rotary import Rotary
from afterglow.ops.rules import exact_extent


@kernel(Rotary, fuses=("x",))
def rotary(k: Kernel) -> None:
    """A unit is a token: the angles of some pairs are loaded once for all its heads."""
    x = k.step.required[0].type
    with k.phase(x.shape[0], work_of(x.size, ELEMENTWISE_STEP)) as p:
        turn = _Turn(p)
        with p.units() as token:
            turn.write(token)


class _Turn:
    """Writes what is done for a token."""

    def __init__(self, p: Phase) -> None:
        x, *angles = p.step.required
        assert isinstance(p.step.op, Rotary)
        self.p, self.interleaved, self.heads = p, p.step.op.interleaved, x.type.shape[1]
        self.width = exact_extent(x.type.shape[2], "how wide the heads of a rotary embedding are")
        self.pairs = exact_extent(angles[0].type.shape[1], "how many pairs are turned")
        self.dtype = arithmetic_type(x.type.dtype)
        self.lanes = full_lanes(p.target, self.dtype)
        self.source, self.sink = p.source(0), p.sink()
        self.angles = [(p.pointer(b), b.strides) for b in angles]

    def write(self, token: Index) -> None:
        """Turn the pairs of all heads, and copy the other elements."""
        angles = [Row(pointer + token * s[0], s[1]) for pointer, s in self.angles]
        lanes = fitting_lanes(self.lanes, self.pairs)
        whole = self.pairs - self.pairs % lanes
        with self.p.e.loop(whole, step=lanes) as pair:
            self._turn(token, angles, pair, lanes)
        for start, count in powers(self.pairs - whole):
            self._turn(token, angles, whole + start, count)
        for start, count in self._others():
            with self.p.e.loop(self.heads, name="head") as head:
                number = token * self.heads + head
                value = self.source.row(number).load(start, count)
                self.sink.row(number).put(start, value)

    def _others(self) -> list[tuple[int, int]]:
        """The elements behind the pairs, in vectors."""
        begin, most = 2 * self.pairs, self.lanes
        whole = (self.width - begin) // most * most
        vectors = [(start, most) for start in range(begin, begin + whole, most)]
        rest = powers(self.width - begin - whole)
        return vectors + [(begin + whole + start, count) for start, count in rest]

    def _turn(self, token: Index, angles: list[Row], pair: Index, lanes: int) -> None:
        """(a, b) -> (a cos - b sin, b cos + a sin) for some pairs of all heads."""
        cos, sin = (convert(row.load(pair, lanes), self.dtype).splat(lanes) for row in angles)
        with self.p.e.loop(self.heads, name="head") as head:
            number = token * self.heads + head
            a, b = self._load(number, pair, lanes)
            self._put(number, pair, fma(a, cos, -(b * sin)), fma(b, cos, a * sin))

    def _load(self, number: Index, pair: Index, lanes: int) -> list[Value]:
        """Both elements of some pairs of a head."""
        row = self.source.row(number)
        if self.interleaved:
            return deinterleave(convert(row.load(pair * 2, 2 * lanes), self.dtype))
        return [convert(row.load(pair + at, lanes), self.dtype) for at in (0, self.pairs)]

    def _put(self, number: Index, pair: Index, a: Value, b: Value) -> None:
        row = self.sink.row(number)
        if self.interleaved:
            row.put(pair * 2, interleave(a, b))
            return
        row.put(pair, a)
        row.put(pair + self.pairs, b)
