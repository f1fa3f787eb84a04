"""Histograms: a unit counts some of the rows in arrays of its own, so that threads need no atomics.

There are several such arrays, and neighbouring elements are counted in different ones: an increment
then need not wait for the one before, which often is of the same bin.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.table import DIRECT, algorithms
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    convert,
    floor,
    larger,
    smaller,
)
from afterglow.backends.cpu.micro.cost import (
    REDUCED_ELEMENT,
    UPDATED_ELEMENT,
    plain_cost,
    work_of,
)
from afterglow.backends.cpu.micro.fusion import SourceRow
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.ops.histogram import Histogram
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32, i32
from afterglow.types.extent import is_ranged, largest

COPIES = 4
"""Arrays of counts that a unit has."""
COUNTED = 1 << 14
"""Elements that a unit counts at least: adding up its arrays should not take longer."""
MOST_PARTS = 8
"""Units are not more than so many: each leaves an array of counts."""


@dataclass(frozen=True)
class _Task:
    """What is counted, and by how many units."""

    op: Histogram
    rows: int
    columns: int
    lanes: int
    """Bins that are added up at once."""

    @staticmethod
    def of(r: KernelRequest) -> _Task:
        op, x = r.step.op, r.step.required[0].type
        assert isinstance(op, Histogram)
        lanes = math.gcd(full_lanes(r.target, i32), op.bins)
        return _Task(op, op.rows(x), x.shape[-1] if x.rank else 1, lanes)

    @property
    def elements(self) -> int:
        """How many elements are counted."""
        return self.rows * self.columns

    @property
    def parts(self) -> int:
        """How many units count them."""
        rows, elements = largest(self.rows), largest(self.elements)
        return max(1, min(MOST_PARTS, elements // COUNTED, rows))


@algorithms(Histogram)
def histogram(r: KernelRequest) -> list[Algorithm]:
    """Counting, the only algorithm."""
    task = _Task.of(r)
    needs = KernelNeeds(
        {"parts": Storage(i32, task.parts * task.op.bins)} if task.parts > 1 else {},
        {"copies": Storage(i32, COPIES * task.op.bins)},
    )
    return [Algorithm(DIRECT, plain_cost(r.job), lambda k: _write(k, task), needs)]


def _write(k: Kernel, task: _Task) -> None:
    """Count each part of the rows; if there are several, add them up in a second phase."""
    with k.phase(task.parts, work_of(task.elements, UPDATED_ELEMENT), "count") as p:
        if task.parts == 1:
            result = p.sink().row(0)
            _write_count(p, task, lambda unit, bin, count: result.put(bin, count))
        else:
            parts, bins = p.workspace("parts"), task.op.bins
            _write_count(p, task, lambda unit, bin, n: parts.store(n, unit * bins + bin))
    if task.parts > 1:
        _write_joined(k, task)


def _write_joined(k: Kernel, task: _Task) -> None:
    bins, lanes = task.op.bins, task.lanes
    with k.phase(bins // lanes, work_of(task.parts * bins, REDUCED_ELEMENT), "joined") as p:
        parts, result = p.workspace("parts"), p.sink().row(0)
        with p.units() as unit:
            found = _total(parts + unit * lanes, bins, task.parts, lanes)
            result.put(unit * lanes, found)


def _write_count(p: Phase, task: _Task, put: Callable[[Value, Value, Value], None]) -> None:
    """Count a part of the rows a unit, and put its counts: of which unit, at which bin."""
    e, bins, source, each = p.e, task.op.bins, p.source(0), -(-task.rows // task.parts)
    scale = e.constant(f32, bins // 2) / p.pointer(p.step.required[1]).load()
    counter = _Counter(p, task, scale, p.scratch("copies"))
    with p.units() as unit:
        counter.clear()
        first = unit * each
        with e.loop(smaller(first + each, e.index(task.rows)), start=first) as row:
            counter.count(source.row(row * task.op.every))
        with e.loop(bins, step=task.lanes) as bin:
            put(unit, bin, _total(counter.copies + bin, bins, COPIES, task.lanes))


def _total(first: Pointer, distance: int, count: int, lanes: int) -> Value:
    """The sum of neighbouring counts in several arrays."""
    total = first.load(0, lanes)
    for number in range(1, count):
        total = total + first.load(number * distance, lanes)
    return total


class _Counter:
    """The arrays of a unit, while it counts rows."""

    def __init__(self, p: Phase, task: _Task, scale: Value, copies: Pointer) -> None:
        self.e, self.task, self.scale, self.copies = p.e, task, scale, copies
        self.lanes = full_lanes(p.target, f32)
        self.places = p.e.scratch(i32, self.lanes)

    def clear(self) -> None:
        """Begin anew."""
        self.e.zero(self.copies, COPIES * self.task.op.bins)

    def count(self, row: SourceRow) -> None:
        """Count a row: by whole vectors, then what is left."""
        columns = self.task.columns
        whole = columns // self.lanes * self.lanes
        with self.e.loop(whole, step=self.lanes) as column:
            self._count_vector(row, column, self.lanes)
        if is_ranged(columns):
            with self.e.loop(columns, start=self.e.index(whole)) as column:
                self._count_vector(row, column, 1)
        else:
            self._count_rest(row, whole)

    def _count_rest(self, row: SourceRow, column: int) -> None:
        """Count what is left of a row by shorter and shorter vectors."""
        lanes = self.lanes // 2
        while column < self.task.columns:
            if column + lanes <= self.task.columns:
                self._count_vector(row, column, lanes)
                column += lanes
            lanes //= 2

    def _count_vector(self, row: SourceRow, column: Index, lanes: int) -> None:
        """Count neighbouring elements; the vector goes through memory, which is a short way."""
        bins = self.task.op.bins
        place = floor(row.load(column, lanes) * self.scale) + bins // 2
        place = larger(place, place.like(0))  # which NaN becomes, too
        place = smaller(place, place.like(bins - 1))
        self.places.store(convert(place, i32))
        for lane in range(lanes):
            bin = convert(self.places.load(lane), self.e.index_type)
            count = self.copies + bin + lane % COPIES * bins
            count.store(count.load() + 1)
