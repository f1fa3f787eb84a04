"""The lines of a panel, and how the products of rows with all of them are added to sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from afterglow.backends.cpu.kernels.quantized.dots import Dots
from afterglow.backends.cpu.kernels.quantized.problem import QuantizedProblem
from afterglow.backends.cpu.llvm.emitter import Emitter, Pointer, Value
from afterglow.backends.cpu.micro.accumulate import (
    Accumulation,
    Factors,
    even_unroll,
    fetch_panel,
)
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.support.lazy_dataclass import dataclass

MOST_PRODUCTS = 64
"""Multiplications in one turn of the innermost loop."""
MOST_QUADS = 4
"""Quads of each row in one turn of the innermost loop."""


class Lines(ABC):
    """The lines of a panel, one for each quad of a row."""

    @abstractmethod
    def add(self, e: Emitter, rows: Sequence[Pointer], sums: Sequence[Value]) -> list[Value]:
        """Add the products of rows with all lines to sums, those of a row next to each other."""


LinesOf = Callable[[Value], Lines]
"""The lines of a panel, given its number."""


@dataclass(frozen=True)
class EvenLines(Lines):
    """Lines that are all multiplied alike: they come in the order of a row's quads."""

    panel: Pointer
    problem: QuantizedProblem
    dots: Dots
    vectors: int
    fetches: bool = False
    """Whether the panel is fetched ahead while it is read."""

    def add(self, e: Emitter, rows: Sequence[Pointer], sums: Sequence[Value]) -> list[Value]:
        """See the base class: a loop for each axis of the taps."""
        outer, quads = self.problem.outer, self.problem.steps
        together = self.problem.together
        taps = Axes((*outer.extents, quads), (*outer.strides, together))
        most = max(1, min(MOST_QUADS, MOST_PRODUCTS // max(len(sums), 1), quads))

        def add(at: Factors, sums: Sequence[Value]) -> list[Value]:
            return self.dots.add(sums, at.rows, at.panel, self.vectors)

        unroll, line = even_unroll(quads, most, 2), self.vectors * sums[0].lanes * together
        fetch = fetch_panel(e.target, line, unroll) if self.fetches else None
        core = Accumulation(add, unroll, fetch=fetch)
        factors = Factors(rows, self.panel, together, line)
        return core.over(e, taps, factors, list(sums))
