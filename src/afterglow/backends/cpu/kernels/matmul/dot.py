"""Products of few rows or few columns, summed up along vectors of the depth.

Both operands lie in memory along the depth, so neither has to be put into another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.matmul.pieces import pieces_of
from afterglow.backends.cpu.kernels.matmul.problem import Problem
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    first_lanes,
    larger,
    load_masked,
    reduce_sum,
    smaller,
    vector,
)
from afterglow.backends.cpu.micro.kernel import Kernel, Needs, Phase
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.tile import (
    ENOUGH_SUMS,
    LINE,
    Run,
    fold_blocks,
    multiply_add,
    split_rows,
    sum_type,
)
from afterglow.backends.cpu.target import Target
from afterglow.types import Array

FEW = 4
"""Rows, or columns, that are few."""
MOST_CHAINS = 4
"""Sums that are made for each element, at most, and added at the end."""


def suits_dot(problem: Problem, target: Target) -> bool:
    """Whether rows or columns are few, and vectors along the depth can be loaded and filled."""
    lanes = target.vector_bits // sum_type(problem.lhs.dtype).bits
    if problem.lhs.column_stride != 1 or lanes < 2 or problem.depth < 2 * lanes:
        return False
    if problem.rhs.is_constant:
        return problem.columns <= FEW
    return problem.rhs.row_stride == 1 and (problem.rows <= FEW or problem.columns <= FEW)


def dot_algorithm(problem: Problem) -> Algorithm:
    """The sums along vectors of the depth."""
    packed = (1,) if _packs(problem) else ()
    write = partial(_write_dot, problem=problem)
    return Algorithm("dot-products", problem.work, write, Needs(packed=packed))


def _packs(problem: Problem) -> bool:
    """Whether columns of a constant are put next to each other."""
    return problem.rhs.is_constant and problem.rhs.row_stride != 1


def _write_dot(kernel: Kernel, problem: Problem) -> None:
    """Write a product; a unit is a tile of the result."""
    rows, columns = _most(problem, kernel.target)
    row_runs, column_runs = split_rows(problem.rows, rows), split_rows(problem.columns, columns)
    units = problem.batches * row_runs[-1].last * column_runs[-1].last
    with kernel.phase(units, problem.work) as p:
        _Dot(p, problem, row_runs, column_runs).write()


def _most(problem: Problem, target: Target) -> tuple[int, int]:
    """Rows and columns of a tile at most: all of which there are few, some of the others."""
    sums = 2 * ENOUGH_SUMS if target.vector_registers >= 32 else ENOUGH_SUMS
    if problem.rows <= FEW:
        return problem.rows, min(ENOUGH_SUMS, sums // problem.rows)
    return min(ENOUGH_SUMS, sums // problem.columns), problem.columns


@dataclass(frozen=True)
class _Pairs:
    """Rows of lhs and columns of rhs, each to be multiplied with each, from some place on."""

    lefts: Sequence[Pointer]
    rights: Sequence[Pointer]

    def at(self, place: Index) -> _Pairs:
        """The same, further along the depth."""
        return _Pairs([x + place for x in self.lefts], [x + place for x in self.rights])


class _Dot:
    """The function that computes tiles of the result."""

    def __init__(
        self, p: Phase, problem: Problem, row_runs: list[Run], column_runs: list[Run]
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
                    lefts = _starts(left + row * lhs.row_stride, rows.rows, lhs.row_stride)
                    for columns in self.column_runs:
                        with self._only(columns, self.column_runs, column_tile) as column:
                            first = self.rhs + place + column * self.column_stride
                            rights = _starts(first, columns.rows, self.column_stride)
                            sums = self._sums(_Pairs(lefts, rights))
                            self._put(batch * self.problem.rows + row, column, sums, columns.rows)

    @contextmanager
    def _only(self, run: Run, runs: list[Run], tile: Index) -> Iterator[Value]:
        """Do a block if a tile is one of a run; gives where the tile begins."""
        start = self.e.index(tile)
        stop = start + 1
        start = larger(start, run.first) if run.first else start
        stop = smaller(stop, run.last) if run.last < runs[-1].last else stop
        with self.e.loop(stop, start=start, name="tile") as number:
            yield number * run.rows + run.shift

    def _sums(self, pairs: _Pairs) -> list[Value]:
        """The scalar product of each row with each column."""
        depth, lanes = self.problem.depth, self.lanes
        size = len(pairs.lefts) * len(pairs.rights)
        chains = max(1, min(MOST_CHAINS, ENOUGH_SUMS // size, depth // lanes))
        turn = chains * lanes

        def body(place: Value, sums: list[Value]) -> list[Value]:
            here = pairs.at(place)
            if self.fetches:
                self._fetch_next(here.rights, turn)
            return [
                total
                for chain in range(chains)
                for total in self._step(
                    here.at(chain * lanes), sums[chain * size : (chain + 1) * size], lanes
                )
            ]

        whole = depth - depth % turn
        zero = self.e.constant(self.dtype, 0, lanes)
        sums = fold_blocks(self.e, whole, [zero] * (size * chains), body, step=turn, chains=turn)
        joined = sums[:size]
        for chain in range(1, chains):
            joined = [a + b for a, b in zip(joined, sums[chain * size :], strict=False)]
        return self._finished(pairs, whole, joined)

    def _fetch_next(self, rights: Sequence[Pointer], count: int) -> None:
        """Fetch what the next columns have at the place where these are."""
        for right in rights:
            following = right + len(rights) * self.column_stride
            for start in range(0, count, LINE // right.dtype.itemsize):
                following.prefetch(start, locality=2)

    def _finished(self, pairs: _Pairs, place: int, sums: list[Value]) -> list[Value]:
        """Add what is left of the depth, and the lanes of each sum."""
        depth, lanes = self.problem.depth, self.lanes
        while place + lanes <= depth:
            sums = self._step(pairs.at(place), sums, lanes)
            place += lanes
        if place < depth and self.p.target.avx512:
            mask = first_lanes(self.e.index(depth - place), lanes)
            sums = self._step(pairs.at(place), sums, lanes, mask)
            place = depth
        scalars = [reduce_sum(total) for total in sums]
        for rest in range(place, depth):
            scalars = self._step(pairs.at(rest), scalars, 1)
        return scalars

    def _step(
        self, pairs: _Pairs, sums: Sequence[Value], lanes: int, mask: Value | None = None
    ) -> list[Value]:
        """Add the products of the next elements along the depth, row by row."""
        rights = [self._load(right, lanes, mask) for right in pairs.rights]
        made = []
        for number, row in enumerate(pairs.lefts):
            left = self._load(row, lanes, mask)
            start = number * len(rights)
            made += [multiply_add(left, right, sums[start + i]) for i, right in enumerate(rights)]
        return made

    def _load(self, place: Pointer, lanes: int, mask: Value | None) -> Value:
        loaded = place.load(0, lanes) if mask is None else load_masked(place, mask)
        return convert(loaded, self.dtype)

    def _put(self, row: Index, column: Index, sums: list[Value], columns: int) -> None:
        for start in range(0, len(sums), columns):
            out = self.sink.row(row + start // columns)
            for piece in pieces_of(columns, self.lanes, masked=False):
                first = start + piece.start
                out.put(column + piece.start, vector(sums[first : first + piece.lanes]))


def _starts(first: Pointer, count: int, stride: int) -> list[Pointer]:
    """Where rows or columns begin that lie a stride apart."""
    return [first + i * stride for i in range(count)]
