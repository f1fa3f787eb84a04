"""Products of few rows or few columns, summed up along vectors of the depth.

Both operands lie in memory along the depth, so neither has to be put into another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.matmul.pieces import pieces_of
from afterglow.backends.cpu.kernels.matmul.problem import GemmProblem
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    first_lanes,
    larger,
    reduce_sum,
    remainder,
    smaller,
    vector,
)
from afterglow.backends.cpu.micro.accumulate import Accumulation, Factors, join_chains, vector_step
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.tile import (
    ENOUGH_SUMS,
    LINE,
    TileRun,
    split_rows,
    sum_type,
)
from afterglow.backends.cpu.target import Target
from afterglow.types import Array
from afterglow.types.extent import dims_of, is_ranged, largest, smaller_extent, smallest

FEW = 4
"""Rows, or columns, that are few."""
UNIT_COLUMNS = 32
"""Columns of a unit at most where their number is ranged."""
MOST_CHAINS = 4
"""Sums that are made for each element, at most, and added at the end."""


def suits_dot(problem: GemmProblem, target: Target) -> bool:
    """Whether rows or columns are few, and vectors along the depth can be loaded and filled."""
    if dims_of(problem.rows, problem.columns) or not _fills_vectors(problem, target):
        return False
    if problem.rhs.is_constant:
        return problem.columns <= FEW
    return problem.rhs.row_stride == 1 and (problem.rows <= FEW or problem.columns <= FEW)


def suits_ranged_dot(problem: GemmProblem, target: Target) -> bool:
    """Whether the same holds of some runs at least, in which rows are few."""
    if not dims_of(problem.rows, problem.columns) or not _fills_vectors(problem, target):
        return False
    rhs = problem.rhs
    along = not rhs.is_constant and rhs.row_stride == 1 and not is_ranged(rhs.column_stride)
    return along and smallest(problem.rows) <= FEW


def _fills_vectors(problem: GemmProblem, target: Target) -> bool:
    lanes = target.vector_bits // sum_type(problem.lhs.dtype).bits
    if is_ranged(problem.depth) or problem.lhs.column_stride != 1:
        return False
    return lanes >= 2 and problem.depth >= 2 * lanes


def dot_algorithm(problem: GemmProblem) -> Algorithm:
    """The sums along vectors of the depth."""
    packed = (1,) if _packs(problem) else ()
    write = partial(_write_dot, problem=problem)
    return Algorithm("dot-products", problem.work, write, KernelNeeds(packed=packed))


def _packs(problem: GemmProblem) -> bool:
    """Whether columns of a constant are put next to each other."""
    return problem.rhs.is_constant and problem.rhs.row_stride != 1


def _write_dot(kernel: Kernel, problem: GemmProblem) -> None:
    """Write a product; a unit is a tile of the result."""
    rows, columns = _most(problem, kernel.target)
    row_runs, column_runs = split_rows(problem.rows, rows), split_rows(problem.columns, columns)
    units = problem.batches * row_runs[-1].last * column_runs[-1].last
    with kernel.phase(units, problem.work) as p:
        _Dot(p, problem, row_runs, column_runs).write()


def has_few_rows(problem: GemmProblem) -> int:
    """1 in runs with few rows, 0 in others."""
    if largest(problem.rows) <= FEW:
        return 1
    return 1 - smaller_extent(1, problem.rows // (FEW + 1))


def ranged_dot(problem: GemmProblem) -> Algorithm:
    """The same where rows are few, for a ranged number of rows or columns."""
    return Algorithm("dot-products", problem.work, partial(_write_ranged, problem=problem))


def _write_ranged(kernel: Kernel, problem: GemmProblem) -> None:
    """Write a product of few rows; a unit is some columns."""
    blocks = -(-problem.columns // UNIT_COLUMNS)
    few = min(1.0, FEW / largest(problem.rows))
    units = problem.batches * blocks * has_few_rows(problem)
    with kernel.phase(units, few * float(problem.work), "dots") as p:
        _RangedDot(p, problem).write()


def _most(problem: GemmProblem, target: Target) -> tuple[int, int]:
    """Rows and columns of a tile at most: all of which there are few, some of the others."""
    sums = 2 * ENOUGH_SUMS if target.vector_registers >= 32 else ENOUGH_SUMS
    if problem.rows <= FEW:
        return problem.rows, min(ENOUGH_SUMS, sums // problem.rows)
    return min(ENOUGH_SUMS, sums // problem.columns), problem.columns


class _Sums:
    """The scalar products of rows with columns, in a function that computes a product."""

    def __init__(self, p: Phase, problem: GemmProblem) -> None:
        self.p, self.e, self.problem = p, p.e, problem
        self.dtype = sum_type(problem.lhs.dtype)
        self.lanes = self.e.lanes(self.dtype)
        self.sink = p.sink()
        self.lhs = p.pointer(problem.lhs.buffer)
        size = problem.depth * largest(problem.columns) * problem.rhs.dtype.itemsize
        self.fetches = smallest(problem.rows) <= FEW and size > p.target.caches.l2 > 0
        self.packs = _packs(problem)
        self.column_stride = problem.depth if self.packs else problem.rhs.column_stride
        buffer = problem.rhs.buffer
        self.rhs = p.packed(buffer, "columns", self._pack) if self.packs else p.pointer(buffer)

    def _pack(self, x: Array) -> Array:
        return x if self.problem.transposed_rhs else x.swapaxes(-1, -2)

    def _sums(self, lefts: list[Pointer], right: Pointer, columns: int) -> list[Value]:
        """The scalar products of rows with neighbouring columns, of which the first is given."""
        depth, lanes = self.problem.depth, self.lanes
        lines = [column * self.column_stride for column in range(columns)]
        size = len(lefts) * columns
        chains = max(1, min(MOST_CHAINS, ENOUGH_SUMS // size, depth // lanes))

        def fetch(place: Value, at: Factors) -> None:
            self._fetch_next(at.panel + place, columns, chains * lanes)

        step = vector_step(self.dtype, lanes, lines)
        core = Accumulation(step, chains, lanes, chains, fetch if self.fetches else None)
        zeros = [self.e.constant(self.dtype, 0, lanes)] * (size * chains)
        factors, whole = Factors(lefts, right), depth - depth % lanes
        sums = core.along(self.e, factors, whole, zeros, chains * lanes)
        return self._finished(factors.at(whole), lines, join_chains(sums, chains))

    def _fetch_next(self, right: Pointer, columns: int, count: int) -> None:
        """Fetch what the next columns have at the place where these are."""
        for column in range(columns, 2 * columns):
            following = right + column * self.column_stride
            for start in range(0, count, LINE // right.dtype.itemsize):
                following.prefetch(start, locality=2)

    def _finished(self, at: Factors, lines: list[int], sums: list[Value]) -> list[Value]:
        """Add what is left of the depth, and the lanes of each sum."""
        rest = self.problem.depth % self.lanes
        if rest and self.p.target.avx512:
            mask = first_lanes(self.e.index(rest), self.lanes)
            return [
                reduce_sum(s) for s in vector_step(self.dtype, self.lanes, lines, mask)(at, sums)
            ]
        single = Accumulation(vector_step(self.dtype, 1, lines), 1)
        return single.steps(at, [reduce_sum(total) for total in sums], rest)

    def _put(self, row: Index, column: Index, sums: list[Value], columns: int) -> None:
        for start in range(0, len(sums), columns):
            out = self.sink.row(row + start // columns)
            for piece in pieces_of(columns, self.lanes, masked=False):
                first = start + piece.start
                out.put(column + piece.start, vector(sums[first : first + piece.lanes]))


class _Dot(_Sums):
    """The function that computes tiles of the result."""

    def __init__(
        self, p: Phase, problem: GemmProblem, row_runs: list[TileRun], column_runs: list[TileRun]
    ) -> None:
        super().__init__(p, problem)
        self.row_runs, self.column_runs = row_runs, column_runs

    def write(self) -> None:
        """Write all of it."""
        lhs, rhs = self.problem.lhs, self.problem.rhs
        with self.p.units() as unit:
            rest, column_tile = split(unit, self.column_runs[-1].last)
            batch, row_tile = split(rest, self.row_runs[-1].last)
            left = self.lhs + lhs.batch.offset(batch)
            size = self.problem.depth * self.problem.columns
            place = rhs.numbers.offset(batch) * size if self.packs else rhs.batch.offset(batch)
            for rows in self.row_runs:
                with self._only(rows, self.row_runs, row_tile) as row:
                    start = left + row * lhs.row_stride
                    lefts = [start + i * lhs.row_stride for i in range(rows.rows)]
                    for columns in self.column_runs:
                        with self._only(columns, self.column_runs, column_tile) as column:
                            first = self.rhs + place + column * self.column_stride
                            sums = self._sums(lefts, first, columns.rows)
                            self._put(batch * self.problem.rows + row, column, sums, columns.rows)

    @contextmanager
    def _only(self, run: TileRun, runs: list[TileRun], tile: Index) -> Iterator[Value]:
        """Do a block if a tile is one of a run; gives where the tile begins."""
        start = self.e.index(tile)
        stop = start + 1
        start = larger(start, run.first) if run.first else start
        stop = smaller(stop, run.last) if run.last < runs[-1].last else stop
        with self.e.loop(stop, start=start, name="tile") as number:
            yield number * run.rows + run.shift


class _RangedDot(_Sums):
    """The function that computes some columns of the result, row by row."""

    def write(self) -> None:
        """Write all of it."""
        e, problem = self.e, self.problem
        with self.p.units() as unit:
            batch, block = split(unit, -(-problem.columns // UNIT_COLUMNS))
            lhs = self.lhs + problem.lhs.batch.offset(batch)
            rhs = self.rhs + problem.rhs.batch.offset(batch)
            first = e.index(block) * UNIT_COLUMNS
            last = smaller(first + UNIT_COLUMNS, problem.columns)
            with e.loop(problem.rows, name="row") as row:
                left = lhs + row * problem.lhs.row_stride
                number = e.index(batch) * problem.rows + row
                self._row(left.settled(), rhs.settled(), number, first, last)

    def _row(self, left: Pointer, right: Pointer, row: Value, first: Value, last: Value) -> None:
        """A row with the columns from `first` to `last`: some at once, the others one by one."""
        whole = last - remainder(last - first, ENOUGH_SUMS)
        for start, stop, columns in ((first, whole, ENOUGH_SUMS), (whole, last, 1)):
            with self.e.loop(stop, start=start, step=columns, name="column") as column:
                place = right + column * self.column_stride
                self._put(row, column, self._sums([left], place, columns), columns)
