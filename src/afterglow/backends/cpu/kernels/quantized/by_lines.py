"""Products of bytes line by line, for processors that multiply two pairs of 16 bits at once.

A line is a row of pixels of the result, or some rows of a matrix. What it reads of x is copied,
with its padding, to lines of 16 bits an element, which are so short that they take little memory;
all columns of the result are made of them before the next line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from afterglow.backends.broadcast import strides_within
from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.quantized.dots import ColumnDots
from afterglow.backends.cpu.kernels.quantized.line_copy import LineCopy
from afterglow.backends.cpu.kernels.quantized.output import QuantizedOutput, Side
from afterglow.backends.cpu.kernels.quantized.problem import (
    ByteReading,
    QuantizedProblem,
    matrix_last,
    operands,
    run_of,
    weight_of_conv,
    weight_of_matmul,
)
from afterglow.backends.cpu.kernels.quantized.weights import BytePanels
from afterglow.backends.cpu.llvm.emitter import Pointer, Value
from afterglow.backends.cpu.micro.accumulate import Accumulation, Factors, even_unroll
from afterglow.backends.cpu.micro.cost import BYTE_FLOP
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.backends.cpu.micro.tile import TileRun, split_rows
from afterglow.instr import OpInstr
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import i16, i32
from afterglow.types.extent import is_ranged

PAIR = 2
"""Elements that are multiplied at once."""
MOST_STEPS = 40
"""Steps along a row that are written one after the other: fewer make loops noticeable."""
LINE_BYTES = 4096
"""Memory for rows of a matrix that are copied at once, unless a few rows are longer."""
TILES = ((4, 2), (1, 4))
"""Rows and columns of tiles whose sums and factors fit in the registers."""


@dataclass(frozen=True)
class LineProblem:
    """Products of the lines that are copied for each line of the result with a weight."""

    copy: LineCopy
    product: QuantizedProblem
    """That of one line, of the copy."""
    count: int
    """Lines of the result."""

    @property
    def work(self) -> float:
        """Multiplications and additions."""
        return self.count * self.product.work


def line_algorithm(r: KernelRequest) -> Algorithm | None:
    """The algorithm for a product of bytes line by line, where it is one for the machine."""
    if not r.target.dot_pairs or r.target.has_vectors or not _fits(r.step):
        return None
    problem = line_problem(r.step)
    panels, runs = _plan(problem.product)
    tile = max(run.rows for run in runs) * panels.width
    scratch = {**problem.copy.storage, "tile": Storage(i32, tile)}
    needs = KernelNeeds(scratch=scratch, packed=(1,))
    return Algorithm(
        "lines",
        BYTE_FLOP * problem.work,
        lambda k: _write(k, problem, panels, runs),
        needs,
        {"tile": (runs[0].rows, panels.vectors)},
    )


def _fits(step: OpInstr) -> bool:
    """Whether the weight is constant, signed around zero and the same for all batches."""
    x, weight = operands(step)
    shapes = (*x.type.shape, *weight.type.shape)
    if 0 in shapes or any(map(is_ranged, shapes)):
        return False
    if isinstance(step.op, QuantizedConv):
        own = weight_of_conv(weight, step.op)
        return own.is_constant and not own.zero_point
    assert isinstance(step.op, QuantizedMatMul)
    own = weight_of_matmul(weight, step.op, 0, 0)
    return own.is_constant and not own.zero_point and own.count == 1 and x.type.rank > 1


def line_problem(step: OpInstr) -> LineProblem:
    """The problem that a step states."""
    if isinstance(step.op, QuantizedConv):
        return _of_conv(step, step.op)
    assert isinstance(step.op, QuantizedMatMul)
    return _of_matmul(step, step.op)


def _of_conv(step: OpInstr, op: QuantizedConv) -> LineProblem:
    _, weight = operands(step)
    copy = LineCopy.of_conv(step, op, i16)
    channels, kernel, inner = copy.reading.shape[-1], weight.type.shape[1:-1], weight.type.shape[-1]
    run = run_of(op, weight.type.shape, (channels, 1))
    hole = op.dilations[-1] * channels
    outer = Axes.merged(kernel, (*copy.strides, hole))
    if run > inner:
        outer = Axes.merged(kernel[:-1], copy.strides)
    *leading, width, _ = step.outs[0].type.shape
    product = QuantizedProblem(
        reading=copy.reading,
        weight=weight_of_conv(weight, op),
        batches=1,
        batch=Axes((), ()),
        numbers=Axes((), ()),
        groups=op.groups,
        group_stride=inner,
        pixels=Axes((width,), (op.strides[-1] * channels,)),
        outer=outer,
        run=run,
        rows=width,
        columns=weight.type.shape[0] // op.groups,
        together=PAIR,
    )
    return LineProblem(copy, product, math.prod(leading))


def _of_matmul(step: OpInstr, op: QuantizedMatMul) -> LineProblem:
    lhs, rhs = operands(step)
    *batch, rows, depth = matrix_last(lhs.type.shape, op.transpose_lhs)
    own = matrix_last(strides_within(lhs, lhs.type.shape), op.transpose_lhs)
    height = _height(rows, depth)
    shape = (*batch, rows // height, height, depth)
    strides = (*own[:-2], own[-2] * height, *own[-2:])
    reading = ByteReading(
        lhs, strides, shape, shape, (0,) * len(shape), (), i16, op.lhs_zero_point, None, True
    )
    columns = step.outs[0].type.shape[-1]
    product = QuantizedProblem(
        reading=reading,
        weight=weight_of_matmul(rhs, op, depth, columns),
        batches=1,
        batch=Axes((), ()),
        numbers=Axes((), ()),
        groups=1,
        group_stride=0,
        pixels=Axes((height,), (depth,)),
        outer=Axes((), ()),
        run=depth,
        rows=height,
        columns=columns,
        together=PAIR,
    )
    count = math.prod(shape[:-2])
    copy = LineCopy(reading, Axes((count,), (1,)), Axes((), ()))
    return LineProblem(copy, product, count)


def _height(rows: int, depth: int) -> int:
    """Rows of a matrix that are copied at once: as many as fit, and divide all."""
    most = max(TILES[0][0], LINE_BYTES // (i16.itemsize * depth))
    return max(height for height in range(1, min(rows, most) + 1) if rows % height == 0)


def _plan(product: QuantizedProblem) -> tuple[BytePanels, list[TileRun]]:
    """The panels and tiles that take the fewest instructions."""

    def cost(plan: tuple[BytePanels, list[TileRun]]) -> float:
        panels, runs = plan
        width = panels.width
        widening = width + width // 2
        tiles = ((run.last - run.first) * (run.rows * (1 + width) + widening) for run in runs)
        return panels.count * sum(tiles)

    plans = [
        (BytePanels.of(ColumnDots(), product, columns, 1), split_rows(product.rows, rows))
        for rows, columns in TILES
    ]
    return min(plans, key=cost)


def _write(k: Kernel, problem: LineProblem, panels: BytePanels, runs: list[TileRun]) -> None:
    """Write the phase of a product; a unit is a line of the result."""
    with k.phase(problem.count, BYTE_FLOP * problem.work) as p:
        _Writer(p, problem, panels, runs).write()


class _Writer:
    """Writes the function that makes lines of the result."""

    def __init__(
        self, p: Phase, problem: LineProblem, panels: BytePanels, runs: list[TileRun]
    ) -> None:
        self.p, self.e, self.problem, self.panels, self.runs = p, p.e, problem, panels, runs
        self.product = problem.product
        self.copy = problem.copy.writer(p)
        self.factors, self.starts = panels.pointer(p), panels.starts(p)
        self.output = QuantizedOutput(p, panels)

    def write(self) -> None:
        """Write all of it."""
        panels = self.panels
        with self.p.units() as line:
            self.copy.write(line)
            with self.e.loop(self.product.groups * panels.count, name="panel") as place:
                group, panel = split(place, panels.count) if self.product.groups > 1 else (0, place)
                column = self.e.index(group) * self.product.columns + panel * panels.width
                starts = None if self.starts is None else self.starts + place * panels.width
                side = self.output.panel(panel, column, starts)
                factors = (self.factors + place * panels.size).aligned(4)
                x = self.copy.pointer + group * self.product.group_stride
                self._write_tiles(x, factors, side, line * self.product.rows)

    def _write_tiles(self, x: Pointer, factors: Pointer, side: Side, row: Value) -> None:
        """Write the tiles of a line for one panel."""
        (stride,) = self.product.pixels.strides
        for run in self.runs:
            with self.e.loop(run.last, start=run.first, name="tile") as tile:
                first = tile * run.rows + run.shift
                base = x + first * stride
                rows = [base + r * stride for r in range(run.rows)]
                sums = self._sums(rows, factors, side.initial * run.rows)
                side.put(row + first, sums, None, often=True)

    def _sums(self, rows: list[Pointer], panel: Pointer, initial: list[Value]) -> list[Value]:
        """The sums of a tile: a short row is written out, a long one is loops."""
        outer, steps = self.product.outer, self.product.steps
        vectors = self.panels.vectors

        def add(at: Factors, sums: Sequence[Value]) -> list[Value]:
            return self.panels.dots.add(sums, at.rows, at.panel, vectors)

        core = Accumulation(add, even_unroll(steps, MOST_STEPS, 2))
        factors = Factors(rows, panel, PAIR, self.panels.line)
        if self.product.lines > MOST_STEPS:
            taps = Axes((*outer.extents, steps), (*outer.strides, PAIR))
            return core.over(self.e, taps, factors, initial)
        sums = initial
        for tap in range(math.prod(outer.extents)):
            here = factors.moved(outer.offset(tap), tap * steps * self.panels.line)
            sums = core.steps(here, sums, steps)
        return sums
