"""Weights in panels [count][columns / width][lines][width][together], and what sums begin with.

The sum of (x - a) (w - b) is that of x w, less a times the sum of the weights of a column, less b
times the sum of the bytes of a row, plus a b for each product. All but the third is known for a
column: sums begin with it.
"""

from __future__ import annotations

import math
from dataclasses import field

import numpy as np

from afterglow.backends.cpu.kernels.quantized.dots import Dots
from afterglow.backends.cpu.kernels.quantized.lines import EvenLines, Lines, LinesOf
from afterglow.backends.cpu.kernels.quantized.problem import QuantizedProblem
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    first_lanes,
    gather,
    lane_numbers,
    load_masked,
    reinterpret,
)
from afterglow.backends.cpu.micro.cost import PACKED_ELEMENT
from afterglow.backends.cpu.micro.kernel import Kernel, Phase, Storage
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.rows import split
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import DType, i8, i32


@dataclass(frozen=True)
class BytePanels(Panels):
    """The packed weight of a problem in panels, each of the same width."""

    problem: QuantizedProblem = field(kw_only=True)
    dots: Dots = field(kw_only=True)

    @staticmethod
    def of(dots: Dots, problem: QuantizedProblem, vectors: int, lanes: int) -> BytePanels:
        """The weight of a problem in panels of some vectors."""
        cut = Panels.filled(problem.columns, lanes, vectors)
        return BytePanels(cut.columns, cut.whole, cut.widths, problem=problem, dots=dots)

    @property
    def line(self) -> int:
        """Elements of a line."""
        return self.width * self.problem.together

    @property
    def size(self) -> int:
        """Elements of a panel."""
        return self.problem.lines * self.line

    def alignment(self, dtype: DType) -> int:
        """What the addresses of lines of an element type are multiples of, in bytes."""
        line = self.line * dtype.itemsize
        return min(ALIGNMENT, line & -line)

    def lines_in(self, p: Phase, *, fetches: bool = False) -> LinesOf:
        """The lines of a panel by its number, fetched ahead or not. Ask before loops."""
        factors, alignment = self.pointer(p), self.alignment(self.dots.weight)

        def lines(place: Value) -> Lines:
            panel = (factors + place * self.size).aligned(alignment)
            return EvenLines(panel, self.problem, self.dots, self.vectors, fetches)

        return lines

    def pointer(self, p: Phase) -> Pointer:
        """Where the panels lie."""
        weight = self.problem.weight
        if weight.is_constant:
            name = f"{self.dots.name}{self.width}"
            return p.packed(weight.buffer, name, self._pack, self.dots.weight)
        return p.workspace("panels")

    def starts(self, p: Phase) -> Pointer | None:
        """Where the numbers lie with which sums begin, one a column; those of floats with zero.

        If the zero point of x is an operand, they are still to be multiplied by it.
        """
        weight = self.problem.weight
        if self.dots.sums.is_float:
            return None
        if weight.is_constant:
            return p.packed(weight.buffer, f"starts{self.width}", self._pack_starts, i32)
        return p.workspace("starts")

    @property
    def storage(self) -> dict[str, Storage]:
        """Workspaces for a weight that is packed when the kernel runs."""
        panels = self.problem.weight.count * self.count
        if self.problem.weight.is_constant:
            return {}
        storage = {"panels": Storage(self.dots.weight, panels * self.size)}
        if not self.dots.sums.is_float:
            storage["starts"] = Storage(i32, panels * self.width)
        return storage

    def _start(self, sums: Array | Value) -> Array | Value:
        """What sums begin with, given the sums of the weights of columns."""
        problem, reading = self.problem, self.problem.reading
        shift = reading.zero_point if reading.zero is None else 1
        return problem.depth * shift * problem.weight.zero_point - sums * shift

    def _pack(self, weight: Array) -> Array:
        return self.dots.pack(self.in_quads(weight))

    def in_quads(self, weight: Array) -> Array:
        """Signed weights [count, panels, lines, width, together] in the wide type."""
        problem = self.problem
        rest = problem.steps * problem.together - problem.run
        padded = np.pad(self._columns(weight), ((0, 0), (0, 0), (0, 0), (0, rest)))
        shape = (problem.weight.count, self.count, self.width, problem.lines, problem.together)
        return np.ascontiguousarray(padded.reshape(shape).swapaxes(2, 3))

    def _pack_starts(self, weight: Array) -> Array:
        sums = self._columns(weight).sum((2, 3), dtype=np.int64)
        return np.asarray(self._start(sums)).astype(np.int32)

    def _columns(self, weight: Array) -> Array:
        """The signed weight [count, panels * width, outer, run] in the wide type."""
        own, problem = self.problem.weight, self.problem
        ordered = weight if own.columns_first else weight.swapaxes(-1, -2)
        outer = math.prod(problem.outer.extents)
        filled = ordered.reshape(own.count, own.columns, -1, own.inner)
        if own.fill:
            filled = np.pad(filled, ((0, 0), (0, 0), (0, 0), (0, own.fill)))
        apart = filled.reshape(own.count, own.columns, outer, problem.run)
        apart = apart.astype(self.dots.wide.numpy)
        missing = self.count * self.width - own.columns
        signed = apart - 128 if own.is_unsigned else apart
        return np.pad(signed, ((0, 0), (0, missing), (0, 0), (0, 0)))

    def write_packing(self, k: Kernel) -> None:
        """Write the phase that packs a weight that is not constant, a unit for each panel."""
        weight = self.problem.weight
        if weight.is_constant:
            return
        units = weight.count * self.count
        with k.phase(units, PACKED_ELEMENT * units * self.size, "pack") as p:
            source, to, starts = p.pointer(weight.buffer), self.pointer(p), self.starts(p)
            ones = p.table("ones", np.ones(self.dots.together, self.problem.reading.dtype.numpy))
            with p.units() as unit:
                number, panel = split(unit, self.count)
                matrix, made = source + weight.counts.offset(number), to + unit * self.size
                self._write_panel(p, matrix, made, p.e.index(panel) * self.width)
                if starts is not None:
                    self._write_starts(p, made, ones, starts + unit * self.width)

    def _write_panel(self, p: Phase, matrix: Pointer, made: Pointer, column: Value) -> None:
        problem, e, together = self.problem, p.e, self.dots.together
        whole = problem.run // together
        with e.loop(math.prod(problem.outer.extents), name="tap") as tap:
            lines, first = made + tap * (problem.steps * self.line), tap * problem.run
            with e.loop(whole, name="quad") as quad:
                place = first + quad * together
                self._write_line(p, matrix, column, lines + quad * self.line, place, together)
            if rest := problem.run % together:
                place = first + whole * together
                self._write_line(p, matrix, column, lines + whole * self.line, place, rest)

    def _write_line(
        self,
        p: Phase,
        matrix: Pointer,
        column: Value,
        line: Pointer,
        depth: Value,
        count: int,
    ) -> None:
        """Write the weights of a few steps along the depth; further ones are zeros."""
        together = self.dots.together
        for v in range(self.vectors):
            start = column + v * self.lanes
            rows = [self._load(p, matrix, start, depth + i) for i in range(count)]
            parts = self.dots.packed([*rows, *[rows[0].like(0)] * (together - count)])
            for number, part in enumerate(parts):
                line.store(part, (number * self.vectors + v) * part.lanes)

    def _load(self, p: Phase, matrix: Pointer, column: Value, depth: Index) -> Value:
        """Signed weights of neighbouring columns; what is not there is anything."""
        weight = self.problem.weight
        place = matrix + weight.depths.offset(depth) + column * weight.column_stride
        mask = None
        if weight.columns % self.width:
            mask = first_lanes(p.e.index(weight.columns) - column, self.lanes)
        if weight.column_stride == 1:
            found = place.load(0, self.lanes) if mask is None else load_masked(place, mask)
        else:
            steps = lane_numbers(p.e, p.e.index_type, self.lanes, weight.column_stride)
            found = gather(place, steps, mask)
        return reinterpret(found ^ 0x80, i8) if weight.is_unsigned else found

    def _write_starts(self, p: Phase, panel: Pointer, ones: Pointer, starts: Pointer) -> None:
        """Sum up the columns of a panel: multiply them by ones."""
        zeros = [p.e.constant(i32, 0, self.lanes)] * self.vectors

        def add(line: Value, sums: list[Value]) -> list[Value]:
            return self.dots.add(sums, [ones], panel + line * self.line, self.vectors)

        for v, sums in enumerate(p.e.fold(self.problem.lines, zeros, add, name="line")):
            start = self._start(sums)
            assert isinstance(start, Value)
            starts.store(start, v * self.lanes)
