"""The gradient of a normalization of rows: blocks of rows, each walked three times in the cache.

The sums over all rows, which scale and bias get, are first those of each block.
"""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.table import DIRECT, algorithms
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    first_lanes,
    fma,
    reduce_sum,
    select,
    smaller,
    sqrt,
)
from afterglow.backends.cpu.micro.cost import NORMALIZED_ELEMENT, plain_cost, work_of
from afterglow.backends.cpu.micro.fusion import SourceRow
from afterglow.backends.cpu.micro.kernel import (
    Kernel,
    KernelNeeds,
    KernelRequest,
    Phase,
    Storage,
)
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.reduction_lines import arithmetic_type
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.micro.tile import tiles_of_block
from afterglow.ops.norm_gradient import NormGradient

LEAST_ROWS = 8
"""Rows of a block at least: the sums of blocks are added later."""
MOST_BLOCKS = 64
"""Blocks at most: as many as there may be threads, a few times over."""
CHUNK = 8
"""Vectors of columns whose blocks are added by one unit."""

Walk = Callable[[Index, list[Value], Value | None], list[Value]]
"""Adds neighbouring columns to what is carried along, where a mask holds."""


@algorithms(NormGradient, exact=("x",))
def norm_gradient(r: KernelRequest) -> list[Algorithm]:
    """Blocks of rows, then the sums of all blocks."""
    x = r.step.required[1].type
    width = x.shape[-1]
    rows = x.size // max(width, 1)
    blocks = min(MOST_BLOCKS, -(-rows // LEAST_ROWS))
    sums = Storage(arithmetic_type(x.dtype), 2 * blocks * width)

    def write(k: Kernel) -> None:
        with k.phase(blocks, work_of(x.size, 2 * NORMALIZED_ELEMENT), "rows") as p:
            _Rows(p, rows, width, blocks).write()
        columns = CHUNK * full_lanes(k.target, sums.dtype)
        with k.phase(-(-width // columns), work_of(2 * blocks * width, 1), "sums") as p:
            _write_sums(p, width, blocks, columns)

    return [Algorithm(DIRECT, plain_cost(r.job), write, KernelNeeds(workspace={"sums": sums}))]


class _Rows:
    """Writes the first phase: what x gets, and the sums of each block of rows."""

    def __init__(self, p: Phase, rows: int, width: int, blocks: int) -> None:
        op = p.step.op
        assert isinstance(op, NormGradient)
        self.p, self.e, self.op = p, p.e, op
        self.rows, self.width, self.blocks = rows, width, blocks
        self.grad, self.x, self.sink = p.source(0), p.source(1), p.sink()
        self.scale = None if p.step.optional(2) is None else p.source(2).row(0)
        self.dtype = arithmetic_type(self.x.dtype)
        self.lanes = full_lanes(p.target, self.dtype)
        self.sums = p.workspace("sums")

    def write(self) -> None:
        """Each block by itself."""
        with self.p.units() as block:
            first, last = tiles_of_block(self.e, block, self.rows, self.blocks)
            sums = self.sums + block * (2 * self.width)
            self.e.zero(sums, 2 * self.width)
            with self.e.loop(last, start=first, name="row") as row:
                self._write_row(row, sums)

    def _write_row(self, row: Value, sums: Pointer) -> None:
        """Find the mean, then what the result depends on, then the result."""
        grad, x, out = self.grad.row(row), self.x.row(row), self.sink.row(row)
        scales, biases = Row(sums, 1), Row(sums + self.width, 1)
        zero = self.e.constant(self.dtype, 0, self.lanes)
        mean = self._mean(x) if self.op.centred else zero

        def centred(column: Index, mask: Value | None) -> Value:
            value = self._load(x, column, mask)
            if not self.op.centred:
                return value
            return value - mean if mask is None else select(mask, value - mean, 0.0)

        def flow(column: Index, mask: Value | None) -> Value:
            slope = self._load(grad, column, mask)
            return slope if self.scale is None else slope * self._load(self.scale, column, mask)

        def add(column: Index, found: list[Value], mask: Value | None) -> list[Value]:
            inner, given = centred(column, mask), flow(column, mask)
            squares, products, total = found
            return [fma(inner, inner, squares), fma(inner, given, products), total + given]

        squares, products, total = map(self._shared, self._walk([zero] * 3, add))
        factor = 1.0 / sqrt(squares + self.op.epsilon)
        share = products * factor * factor

        def put(column: Index, found: list[Value], mask: Value | None) -> list[Value]:
            inner, rest = centred(column, mask), flow(column, mask)
            slope = self._load(grad, column, mask)
            _add_to(scales, column, slope * (inner * factor), mask)
            _add_to(biases, column, slope, mask)
            rest = rest - total if self.op.centred else rest
            out.put(column, (rest - inner * share) * factor, mask)
            return found

        self._walk([], put)

    def _mean(self, x: SourceRow) -> Value:
        zero = self.e.constant(self.dtype, 0, self.lanes)
        (total,) = self._walk([zero], lambda at, sums, mask: [sums[0] + self._load(x, at, mask)])
        return self._shared(total)

    def _shared(self, sums: Value) -> Value:
        """The sum of all lanes, divided by the number of elements, in each lane."""
        return (reduce_sum(sums) / float(self.width)).splat(self.lanes)

    def _load(self, row: SourceRow, column: Index, mask: Value | None) -> Value:
        """Elements, and 0 in other lanes: one element alone is in all of them."""
        value = convert(row.load(column, self.lanes, mask), self.dtype)
        return value if mask is None else select(mask, value, 0.0)

    def _walk(self, carried: list[Value], step: Walk) -> list[Value]:
        """Go through all columns, a vector at a time."""
        whole = self.width - self.width % self.lanes
        found = self.e.fold(
            whole,
            carried,
            lambda column, found: step(column, found, None),
            step=self.lanes,
            unroll=2,
            name="column",
        )
        if whole < self.width:
            mask = first_lanes(self.e.index(self.width - whole), self.lanes)
            found = step(whole, found, mask)
        return found


def _add_to(row: Row, column: Index, value: Value, mask: Value | None) -> None:
    """Add a vector to what is in memory, where the mask holds."""
    row.store(row.load(column, value.lanes, mask) + value, column, mask)


def _write_sums(p: Phase, width: int, blocks: int, columns: int) -> None:
    """Write the second phase: the sums of all blocks, some columns a unit."""
    sums, sinks = p.workspace("sums"), (p.sink(1).row(0), p.sink(2).row(0))
    lanes = full_lanes(p.target, sums.dtype)
    zero = p.e.constant(sums.dtype, 0, lanes)

    def total_of(number: int, column: Value, mask: Value | None) -> Value:
        def add(block: Value, found: list[Value]) -> list[Value]:
            row = Row(sums + (block * 2 + number) * width, 1)
            return [found[0] + row.load(column, lanes, mask)]

        (total,) = p.e.fold(blocks, [zero], add, name="block")
        return total

    with p.units() as unit:
        first = unit * columns
        last = smaller(first + columns, width)
        with p.e.loop(last, start=first, step=lanes, name="column") as column:
            mask = first_lanes(width - column, lanes) if width % lanes else None
            for number, sink in enumerate(sinks):
                sink.put(column, total_of(number, column, mask), mask)
