"""The output of products of bytes: sums of integers are scaled and go through the epilogue."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.quantized.copying import zero_point_in
from afterglow.backends.cpu.kernels.quantized.weights import BytePanels
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    equal,
    first_lanes,
    part,
)
from afterglow.backends.cpu.micro.fusion import SinkRow
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.rows import Row
from afterglow.instr import Buffer, OpInstr
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32, i32

MOST_LINES = 32
"""Lines of a panel up to which a tile is so short that going through memory would be noticeable."""
MOST_STEPS = 1
"""Steps after a product that may as well be written once for each vector of a tile."""


class QuantizedOutput:
    """The result of a product, which is written tile by tile, in rows.

    A tile goes through memory, unless it was soon done: a loop over its rows is less code than all
    its vectors.
    """

    def __init__(self, p: Phase, panels: BytePanels) -> None:
        self.e, self.sink, self.panels = p.e, p.sink(), panels
        scale, bias = scale_and_bias(p.step)
        self.scale = None if scale is None else row_of(p, scale)
        self.bias = None if bias is None else row_of(p, bias)
        reading = panels.problem.reading
        self.zero = None if reading.zero is None else zero_point_in(p, reading, i32)
        self.buffer = p.scratch("tile")
        self.masked, self.small = p.target.avx512, not p.target.has_vectors
        self.light = len(p.kernel.job.after) <= MOST_STEPS

    def panel(self, panel: Index, column: Value, starts: Pointer | None) -> Side:
        """What the tiles of a panel need, which begins at a column of the result."""
        lanes, initial, scales, masks = self.panels.lanes, [], [], []
        biases: list[Value] = []
        left = self.e.index(self.panels.problem.columns) - panel * self.panels.width
        for v in range(self.panels.vectors):
            mask = None if self.is_whole else first_lanes(left - v * lanes, lanes)
            masks.append(mask)
            start, place = self._start(starts, v * lanes), column + v * lanes
            bias = None if self.bias is None else self.bias.load(place, lanes, mask).splat(lanes)
            if bias is not None and not start.dtype.is_float:
                start = start + bias
            elif bias is not None:
                biases.append(convert(bias, start.dtype))
            initial.append(start)
            if self.scale is not None:
                scales.append(self.scale.load(place, lanes, mask).splat(lanes))
        last = equal(self.e.index(panel), self.panels.count - 1)
        return Side(self, last, column, initial, scales, biases, masks)

    def _start(self, starts: Pointer | None, at: int) -> Value:
        """What the sums of a vector of columns begin with, but for a bias."""
        lanes = self.panels.lanes
        if starts is None:
            return self.e.constant(self.panels.dots.sums, 0, lanes)
        start = starts.load(at, lanes)
        return start if self.zero is None else start * self.zero.splat(lanes)

    @property
    def is_direct(self) -> bool:
        """Whether a tile is put from registers: if it is made of few products, or is small."""
        few = self.panels.problem.lines <= MOST_LINES or self.small
        return few and self.light and (self.masked or self.is_whole)

    @property
    def is_whole(self) -> bool:
        """Whether all panels have all their columns."""
        return self.panels.problem.columns % self.panels.width == 0


@dataclass(frozen=True)
class Side:
    """A panel of the result: what sums begin with, and what they are multiplied by."""

    output: QuantizedOutput
    is_last: Value
    column: Value
    initial: list[Value]
    scales: list[Value]
    biases: list[Value]
    """What is added to sums of floats at the end, where it costs one rounding."""
    masks: list[Value | None]

    def put(self, row: Value, sums: list[Value], shifts: Pointer | None, *, often: bool) -> None:
        """Put the sums of neighbouring rows, less a shift for each.

        `often` says whether most tiles have this height: the others need no fast code.
        """
        output, panels = self.output, self.output.panels
        if often and output.is_direct:
            self._put_directly(row, sums, shifts)
            return
        self.keep(sums)
        self.put_kept(row, len(sums) // panels.vectors, shifts)

    def keep(self, sums: list[Value]) -> None:
        """Lay down the sums of neighbouring rows where `put_kept` finds them."""
        for number, total in enumerate(sums):
            self.output.buffer.store(total, number * self.output.panels.lanes)

    def put_kept(self, row: Value, rows: Index, shifts: Pointer | None, kept: Index = 0) -> None:
        """Put the sums of rows that were laid down, from one on, less a shift for each."""
        output, panels = self.output, self.output.panels
        place = output.buffer + kept * panels.width
        if output.is_whole:
            self._put_columns(row, rows, panels.width, shifts, place)
            return
        rest = panels.problem.columns % panels.width
        for condition, columns in ((~self.is_last, panels.width), (self.is_last, rest)):
            if columns <= panels.problem.columns:
                with output.e.when(condition):
                    self._put_columns(row, rows, columns, shifts, place)

    def _put_directly(self, row: Value, sums: list[Value], shifts: Pointer | None) -> None:
        """Put all vectors as they are in registers."""
        lanes, vectors = self.output.panels.lanes, self.output.panels.vectors
        for r in range(len(sums) // vectors):
            out = self.output.sink.row(row + r)
            shift = None if shifts is None else (shifts + r).load()
            for v, total in enumerate(sums[r * vectors : (r + 1) * vectors]):
                value = self._result(total, v, shift)
                out.put(self.column + v * lanes, value, self.masks[v])

    def _result(self, total: Value, vector: int, shift: Value | None) -> Value:
        """What becomes of a vector of sums, of a row with a shift."""
        total = total if shift is None else total - shift
        if self.biases:
            return total + self.biases[vector]
        return convert(total, f32) * self.scales[vector] if self.scales else total

    def _put_columns(
        self, row: Value, rows: Index, columns: int, shifts: Pointer | None, kept: Pointer
    ) -> None:
        """Put the first columns of all rows, by vectors and parts of them."""
        output, e, panels = self.output, self.output.e, self.output.panels
        with e.loop(rows, name="row") as r:
            out, line = output.sink.row(row + r), kept + r * panels.width
            shift = None if shifts is None else (shifts + r).load()
            for v in range(panels.vectors):
                left = columns - v * panels.lanes
                if left <= 0:
                    break
                total = line.load(v * panels.lanes, panels.lanes)
                value = self._result(total, v, shift)
                self._put(out, v * panels.lanes, value, min(left, panels.lanes))

    def _put(self, out: SinkRow, start: int, value: Value, count: int) -> None:
        """Put the first lanes of a vector."""
        if count == value.lanes:
            out.put(self.column + start, value)
        elif self.output.masked:
            mask = first_lanes(self.output.e.index(count), value.lanes)
            out.put(self.column + start, value, mask)
        else:
            taken = 0
            while taken < count:
                lanes = 1 << ((count - taken).bit_length() - 1)
                out.put(self.column + (start + taken), part(value, taken, lanes))
                taken += lanes


def scale_and_bias(step: OpInstr) -> tuple[Buffer | None, Buffer | None]:
    """What sums are multiplied by, and what is added to them: products of floats have no scale."""
    names = step.op.operand_names
    scale, bias = (
        step.optional(names.index(name)) if name in names else None for name in ("scale", "bias")
    )
    return scale, bias


def row_of(p: Phase, vector: Buffer) -> Row:
    """A scale or bias; one number is for all columns."""
    return Row(p.pointer(vector), vector.strides[0] if vector.type.rank else 0)
