"""Kernels that fold each line a few times, and then compute a result for every element.

Where there are few lines, and long ones, each fold is a phase of its own that works on blocks of
lines, and leaves what it found for the phases after it; else all is done line by line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from afterglow.backends.cpu.llvm.emitter import Value
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.operand_cache import cache_needs
from afterglow.backends.cpu.micro.reduction_line import UNROLL, Position, ReductionLine, each_line
from afterglow.backends.cpu.micro.reduction_lines import LineCut, ReductionLines
from afterglow.backends.cpu.micro.rows import Rows
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import is_ranged, largest

Results = list[list[Value]]
"""The results of the folds before, for each of the lines side by side."""

MANY_UNITS = 8
"""So many units are enough for threads to share."""
BLOCK = 1 << 14
"""Elements of a block, at least."""
MOST_BLOCKS = 64
"""Blocks of a line: every later block joins what they all have found."""


@dataclass(frozen=True)
class Fold:
    """A fold along a line: its terms are combined to one number, and that gives a result."""

    initial: float
    term: Callable[[Position, Results], Value]
    combine: Callable[[Value, Value], Value]
    finish: Callable[[Value, Results, int], Value]
    """Takes the number, the results of folds before, and which of the lines it is."""
    unroll: int = UNROLL

    def run(self, line: ReductionLine, results: Results) -> list[Value]:
        """What the terms of each line become."""

        def step(position: Position, carried: list[Value]) -> list[Value]:
            return [self.combine(carried[0], self.term(position, results))]

        def combine(a: list[Value], b: list[Value]) -> list[Value]:
            return [self.combine(a[0], b[0])]

        start = line.p.e.constant(line.lines.dtype, self.initial)
        return [value for (value,) in line.fold([start], step, combine, unroll=self.unroll)]

    def finished(self, found: list[Value], results: Results) -> list[Value]:
        """The result of each line."""
        return [self.finish(value, results, which) for which, value in enumerate(found)]


@dataclass(frozen=True)
class FoldStages:
    """Folds one after the other, and what is done at every position then."""

    folds: tuple[Fold, ...]
    put: Callable[[Position, Results], None]
    unroll: int = UNROLL

    def run(self, line: ReductionLine) -> None:
        """All of it for one line."""
        results: Results = []
        for fold in self.folds:
            results.append(fold.finished(fold.run(line, results), results))
        line.each(lambda position: self.put(position, results), unroll=self.unroll)


@dataclass(frozen=True)
class Partials:
    """The partial results of a fold, for each block of each line, in shared memory."""

    rows: Rows
    blocks: int

    @staticmethod
    def of(p: Phase, name: str, lines: ReductionLines) -> Partials:
        """The memory of that name, for lines that are cut."""
        assert lines.cut is not None
        rows, columns = partials_shape(lines)
        found = Rows(p.workspace(name), (rows, columns), (columns, 1))
        return Partials(found, lines.cut.blocks)

    def save(self, line: ReductionLine, found: list[Value]) -> None:
        """Leave what was found in the block that is being worked on."""
        row = self.rows.row(line.number * self.blocks + line.block)
        for (offset, mask), value in zip(line.vectors, found, strict=True):
            row.store(value, line.start + offset, mask)

    def joined(
        self, line: ReductionLine, initial: float, combine: Callable[[Value, Value], Value]
    ) -> list[Value]:
        """What all blocks of a line have found, in their order."""
        lines = line.lines
        lanes = lines.lanes if lines.layout.across else 1
        start = line.p.e.constant(lines.dtype, initial, lanes)

        def step(block: Value, carried: list[Value]) -> list[Value]:
            row = self.rows.row(line.number * self.blocks + block)
            return [
                combine(value, row.load(line.start + offset, lanes, mask))
                for (offset, mask), value in zip(line.vectors, carried, strict=True)
            ]

        return line.p.e.fold(self.blocks, [start] * len(line.vectors), step, name="block")


def partials_shape(lines: ReductionLines) -> tuple[int, int]:
    """Rows and columns of what a fold leaves, of lines that are cut."""
    layout, cut = lines.layout, lines.cut
    assert cut is not None
    return layout.lines * cut.blocks, layout.columns if layout.across else 1


def partials_storage(lines: ReductionLines) -> Storage:
    """The memory for what one fold leaves."""
    return Storage(lines.dtype, math.prod(partials_shape(lines)))


def staged_lines(lines: ReductionLines) -> ReductionLines:
    """The lines as the phases walk them: cut into blocks, where they are few and long."""
    return replace(lines, cut=_cut(lines))


def staged_needs(lines: ReductionLines, folds: int, *, keeps: bool) -> KernelNeeds:
    """Memory of a kernel that folds lines several times; with a cache of what it reads if asked."""
    walked = staged_lines(lines)
    cache = cache_needs(walked) if keeps else KernelNeeds()
    if walked.cut is None:
        return cache
    partials = {f"partials{n}": partials_storage(walked) for n in range(folds)}
    return replace(cache, workspace={**partials, **cache.workspace})


def write_staged(
    k: Kernel,
    lines: ReductionLines,
    work: float,
    folds: int,
    prepare: Callable[[Phase, ReductionLines], FoldStages],
) -> None:
    """Write the kernel; `prepare` opens what a phase reads and writes, and says what is done."""
    blocks = staged_lines(lines)
    if blocks.cut is None:
        with k.phase(lines.units, work) as p:
            stages = prepare(p, lines)
            each_line(p, lines, stages.run)
        return
    part = work // (folds + 1) if is_ranged(work) else work / (folds + 1)
    for number in range(folds + 1):
        with k.phase(blocks.units, part, f"stage{number}") as p:
            _write_stage(p, blocks, number, prepare(p, blocks))


def _write_stage(p: Phase, lines: ReductionLines, number: int, stages: FoldStages) -> None:
    partials = [Partials.of(p, f"partials{n}", lines) for n in range(len(stages.folds))]

    def body(line: ReductionLine) -> None:
        results: Results = []
        for fold, found in zip(stages.folds[:number], partials, strict=False):
            results.append(fold.finished(found.joined(line, fold.initial, fold.combine), results))
        if number == len(stages.folds):
            line.each(lambda position: stages.put(position, results), unroll=stages.unroll)
        else:
            partials[number].save(line, stages.folds[number].run(line, results))

    each_line(p, lines, body)


def _cut(lines: ReductionLines) -> LineCut | None:
    """Blocks of lines that are few and long; None for others."""
    layout = lines.layout
    columns = lines.side * lines.lanes if layout.across else largest(layout.columns)
    if largest(lines.units) >= MANY_UNITS or largest(layout.rows) * columns < 2 * BLOCK:
        return None
    whole = LineCut(layout, 1)
    least = BLOCK if whole.is_along_row else max(1, BLOCK // columns)
    size = max(least, -(-largest(whole.extent) // MOST_BLOCKS))
    cut = LineCut(layout, -(-size // lines.lanes) * lines.lanes if whole.is_along_row else size)
    return cut if largest(cut.blocks) > 1 else None
