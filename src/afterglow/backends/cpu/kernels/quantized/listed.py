"""Panels in lists, for machines whose fast multiplication of bytes adds two products in 16 bits.

`vpmaddubsw` is exact where the weights that meet two neighbouring bytes are small enough. Weights
are known when the code is made: each panel has the lines first of which that is true of all its
columns. The others follow, with weights of 16 bits that are multiplied by widened bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.backends.cpu.kernels.quantized.dots import QUAD, PairDots, quad_of
from afterglow.backends.cpu.kernels.quantized.lines import Lines, LinesOf
from afterglow.backends.cpu.kernels.quantized.problem import QuantizedProblem
from afterglow.backends.cpu.kernels.quantized.weights import BytePanels
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    multiply_add_byte_pairs,
    multiply_add_pairs,
    reinterpret,
)
from afterglow.backends.cpu.micro.accumulate import Factors
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import i8, i16, i32, u8
from afterglow.types.extent import is_ranged

MOST_WEIGHTS = 128
"""What two weights of one sign may add up to: 255 times that fits into 16 bits, of either sign."""
HEADER = 2
"""Numbers before the offsets of a panel's lines: where it begins, and its narrow lines."""
WIDE = 2
"""How many times as long a line is whose weights have 16 bits."""


@dataclass(frozen=True)
class ListedPanels(BytePanels):
    """Panels of which each has its narrow lines first, and then wide ones."""

    @staticmethod
    def of_listed(problem: QuantizedProblem, vectors: int, lanes: int) -> ListedPanels:
        """The weight of a problem in panels of some vectors."""
        cut = Panels.filled(problem.columns, lanes, vectors)
        return ListedPanels(cut.columns, cut.whole, cut.widths, problem=problem, dots=PairDots())

    def lines_in(self, p: Phase, *, fetches: bool = False) -> LinesOf:
        """The lines of a panel by its number, which are not fetched ahead. Ask before loops."""
        weight, name = self.problem.weight.buffer, f"{self.width}"
        lists = p.packed(weight, f"lists{name}", self._pack_lists, i32)
        factors = p.packed(weight, f"listed{name}", self._pack_listed, i8)

        def lines(place: Value) -> Lines:
            header = lists + place * (HEADER + self.problem.lines)
            start, narrow = (p.e.index(header.load(i)) for i in range(HEADER))
            panel = (factors + start * self.line).aligned(self.alignment(i8))
            return ListedLines(panel, header + HEADER, narrow, self)

        return lines

    def _pack_lists(self, weight: Array) -> Array:
        """For each panel where it begins, its narrow lines, and where in a row quads are."""
        fits = self._fits(weight)
        narrow = fits.sum(1)
        sizes = narrow + WIDE * (self.problem.lines - narrow)
        starts = np.cumsum(sizes) - sizes
        offsets = self._offsets()[_order(fits)]
        return np.concatenate([starts[:, None], narrow[:, None], offsets], 1).astype(np.int32)

    def _pack_listed(self, weight: Array) -> Array:
        """The lines of all panels, in order."""
        fits, quads = self._fits(weight), self._quads(weight)
        parts = []
        for own, lines, order in zip(fits, quads, _order(fits), strict=True):
            narrow = lines[order[: own.sum()]].astype(np.int8)
            wide = self.dots.pack(lines[order[own.sum() :]])
            parts += [narrow.reshape(-1), wide.reshape(-1).view(np.int8)]
        return np.concatenate(parts)

    def _fits(self, weight: Array) -> Array:
        """Whether sums of two products fit into 16 bits, for each line of all panels."""
        pairs = self._quads(weight).reshape(-1, self.problem.lines, self.width * 2, 2)
        most = np.maximum(pairs, 0).sum(-1).max(-1)
        least = np.minimum(pairs, 0).sum(-1).min(-1)
        found: Array = (most <= MOST_WEIGHTS) & (least >= -MOST_WEIGHTS)
        return found

    def _quads(self, weight: Array) -> Array:
        """Weights [panels, lines, width, 4] in 16 bits."""
        return self.in_quads(weight).reshape(-1, self.problem.lines, self.width, QUAD)

    def _offsets(self) -> Array:
        """Where in a row each of its quads begins."""
        places = np.zeros(1, np.int64)
        axes = zip(self.problem.outer.extents, self.problem.outer.strides, strict=True)
        for extent, stride in (*axes, (self.problem.steps, QUAD)):
            places = (places[:, None] + np.arange(extent) * stride).reshape(-1)
        return places


def _order(fits: Array) -> Array:
    """Lines of each panel, those first that fit."""
    return np.argsort(~fits, axis=1, kind="stable")


def can_list(problem: QuantizedProblem) -> bool:
    """Whether all is known when the code is made that lists are made of."""
    fixed = not any(map(is_ranged, problem.outer.strides))
    return problem.weight.is_constant and fixed and problem.lines > 0


@dataclass(frozen=True)
class ListedLines(Lines):
    """The lines of a panel, of which the first `narrow` are narrow; `offsets` has their quads."""

    panel: Pointer
    offsets: Pointer
    narrow: Value
    panels: ListedPanels

    def add(self, e: Emitter, rows: Sequence[Pointer], sums: Sequence[Value]) -> list[Value]:
        """See the base class: one loop for narrow lines, one for wide ones.

        Products are multiplied by -1 and subtracted, as those of `PairDots`.
        """
        lanes, vectors, size = sums[0].lanes, self.panels.vectors, self.panels.line
        minus_ones = e.constant(i16, -1, 2 * lanes)

        def add_narrow(number: Value, sums: list[Value]) -> list[Value]:
            at = self._at(rows, number, number * size)
            weights = [at.panel.load(v * QUAD * lanes, QUAD * lanes) for v in range(vectors)]
            added: list[Value] = []
            for row in at.rows:
                x = reinterpret(quad_of(row, lanes), u8)
                for weight in weights:
                    products = multiply_add_byte_pairs(x, weight)
                    added.append(sums[len(added)] - multiply_add_pairs(products, minus_ones))
            return added

        def add_wide(number: Value, sums: list[Value]) -> list[Value]:
            place = number * (WIDE * size) - self.narrow * size
            at = self._at(rows, number, place)
            return self.panels.dots.add(sums, at.rows, at.panel.cast(i16), vectors)

        found = e.fold(self.narrow, list(sums), add_narrow, name="narrow")
        end: Index = self.panels.problem.lines
        return e.fold(end, found, add_wide, start=self.narrow, name="wide")

    def _at(self, rows: Sequence[Pointer], number: Value, place: Value) -> Factors:
        """Rows at the quad of a line, and the line at a place."""
        return Factors(rows, self.panel).moved(self.offsets.load(number), place)
