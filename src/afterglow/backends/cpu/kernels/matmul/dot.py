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
from afterglow.types.extent import dims_of

FEW = 4
"""Rows, or columns, that are few."""
MOST_CHAINS = 4
"""Sums that are made for each element, at most, and added at the end."""


def suits_dot(problem: GemmProblem, target: Target) -> bool:
    """Whether rows or columns are few, and vectors along the depth can be loaded and filled."""
    if dims_of(problem.rows, problem.columns, problem.depth):
        return False
    lanes = target.vector_bits // sum_type(problem.lhs.dtype).bits
    if problem.lhs.column_stride != 1 or lanes < 2 or problem.depth < 2 * lanes:
        return False
    if problem.rhs.is_constant:
        return problem.columns <= FEW
    return problem.rhs.row_stride == 1 and (problem.rows <= FEW or problem.columns <= FEW)


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


def _most(problem: GemmProblem, target: Target) -> tuple[int, int]:
    """Rows and columns of a tile at most: all of which there are few, some of the others."""
    sums = 2 * ENOUGH_SUMS if target.vector_registers >= 32 else ENOUGH_SUMS
    if problem.rows <= FEW:
        return problem.rows, min(ENOUGH_SUMS, sums // problem.rows)
    return min(ENOUGH_SUMS, sums // problem.columns), problem.columns


class _Dot:
    """The function that computes tiles of the result."""

    def __init__(
        self, p: Phase, problem: GemmProblem, row_runs: list[TileRun], column_runs: list[TileRun]
    ) -> None:
        self.p, self.e, self.problem = p, p.e, problem
        self.row_runs, self.column_runs = row_runs, column_runs
        self.dtype = sum_type(problem.lhs.dtype)
        self.lanes = self.e.lanes(self.dtype)
        self.sink = p.sink()
        self.lhs = p.pointer(problem.lhs.buffer)
        size = problem.depth * problem.columns * problem.rhs.dtype.itemsize
        self.fetches = problem.rows <= FEW and size > p.target.caches.l2 > 0
        self.packs = _packs(problem)
        self.column_stride = problem.depth if self.packs else problem.rhs.column_stride
        buffer = problem.rhs.buffer
        self.rhs = p.packed(buffer, "columns", self._pack) if self.packs else p.pointer(buffer)

    def _pack(self, x: Array) -> Array:
        return x if self.problem.transposed_rhs else x.swapaxes(-1, -2)

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
