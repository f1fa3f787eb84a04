"""Products on devices with many small units: a work-group shares the numbers that it needs.

Each item of a group has a small tile of sums. All of them together bring some terms of the rows
and of the columns into the memory that they share, and then read each number several times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from afterglow.backends.items.around import write_result
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.kernels.kernel import Kernel
from afterglow.backends.opencl.kernels.product import Work
from afterglow.backends.opencl.kernels.tile import Panel, Tile, add_product, writes_vectors
from afterglow.backends.opencl.limits import Limits
from afterglow.types.dtype import DType

SIDE = 4
"""Rows and columns of the sums of an item."""
TERMS = 16
"""Terms that are brought near at once."""
SIDES = (16, 8, 4, 2, 1)
"""Items of a group along rows, and along columns."""
LEAST_ROWS = 8
"""Fewer rows than these have no use for shared columns."""


class GroupOperands(Protocol):
    """Where the numbers of a product are, one at a time."""

    def number(self, row: Value, term: Value) -> Value:
        """A number of a row."""

    def weight(self, panel: Value, column: Value, term: Value) -> Value:
        """A number of a column of a panel; any number beyond the last column."""

    def start(self, panel: Value) -> Panel | None:
        """What the sums of a panel begin with, if not with zeros."""

    def place(self, row: Value, column: Value) -> list[Value]:
        """The place of an element of the result."""


def group_tile(limits: Limits) -> Tile:
    """The sums of a whole group."""
    side = SIDE * next(side for side in SIDES if side * side <= limits.work_group)
    return Tile(side, side // SIDE, SIDE)


def write_group_product(kernel: Kernel, work: Work, operands: GroupOperands, dtype: DType) -> None:
    """A work-group for each tile and panel."""
    Group(kernel, work, operands, dtype).write()


class Group:
    """A work-item of a group, and what it shares: numbers of a type, whose sums may have another.

    Subclasses say what is done with the numbers.
    """

    def __init__(
        self,
        kernel: Kernel,
        work: Work,
        operands: GroupOperands,
        dtype: DType,
        sums: DType | None = None,
    ) -> None:
        code, side = kernel.code, work.tile.vectors
        kernel.items = (work.all_panels * side, work.all_tiles * side, work.extents.count)
        kernel.group = (side, side, 1)
        self.kernel, self.work, self.operands, self.dtype = kernel, work, operands, dtype
        self.type_of_sums = sums or dtype
        self.width = work.tile.columns
        self.panel = code.group(0)
        self.first = code.named(code.group(1) * self.width)
        self.across, self.down = code.local_item(0), code.local_item(1)
        self.rows = code.shared(dtype, TERMS * (self.width + SIDE))
        self.columns = code.shared(dtype, TERMS * self.width)

    def add(self, total: Value, number: Value, columns: Value) -> None:
        """Add the products of a number of a row with those of some columns."""
        add_product(self.kernel, total, number.splat(columns.lanes), columns)

    def result(self, total: Value, column: Value) -> Value:
        """What a sum, or those of some columns, gives."""
        return total

    def write(self) -> None:
        """Bring near, add up, and so on; then store."""
        code, terms = self.kernel.code, self.work.extents.terms
        start = self.operands.start(self.panel)
        zero = code.constant(self.type_of_sums, 0, SIDE)
        first = zero if start is None else start.source.load(self.across * SIDE, SIDE)
        sums = [code.variable(first) for _ in range(SIDE)]
        with code.loop(terms, step=TERMS) as term:
            self._bring(term)
            code.barrier()
            with code.loop(TERMS) as near:
                self._add(sums, near)
            code.barrier()
        for number, total in enumerate(sums):
            self._store(total, code.named(self.first + (self.down * SIDE + number)))

    def _bring(self, term: Value) -> None:
        """Each item copies some numbers; neighbouring items read neighbours in memory."""
        code, work, side = self.kernel.code, self.work, self.work.tile.vectors
        item = code.named(self.down * side + self.across)
        with code.loop(TERMS * self.width, item, side * side) as element:
            near, row = element.combined("%", TERMS), element.combined("/", TERMS)
            own = code.named(code.smaller(self.first + row, work.extents.rows - 1))
            number = self._unless_beyond(term + near, lambda at: self.operands.number(own, at))
            self.rows.store(number, near * (self.width + SIDE) + row)
        with code.loop(TERMS * self.width, item, side * side) as element:
            near, column = element.combined("/", self.width), element.combined("%", self.width)
            number = self._unless_beyond(
                term + near, lambda at: self.operands.weight(self.panel, code.named(column), at)
            )
            self.columns.store(number, element)

    def _unless_beyond(self, term: Value, number: Callable[[Value], Value]) -> Value:
        """A number of a term; zero if there is no such term."""
        code, terms = self.kernel.code, self.work.extents.terms
        if terms % TERMS == 0:
            return number(code.named(term))
        found = number(code.named(code.smaller(term, terms - 1)))
        zero = code.constant(self.dtype, 0)
        return found.derive(f"{term.text} < {terms} ? {found.text} : {zero.text}")

    def _add(self, sums: Sequence[Value], near: Value) -> None:
        """Add the products of one term."""
        rows = self.rows.load(near * (self.width + SIDE) + self.down * SIDE, SIDE)
        columns = self.columns.load(near * self.width + self.across * SIDE, SIDE)
        for number, total in enumerate(sums):
            one = Value(self.kernel.code, self.dtype, 1, f"{rows.text}.s{number}")
            self.add(total, one, columns)

    def _store(self, total: Value, row: Value) -> None:
        """Write a row of sums; none beyond the rows and columns that there are."""
        code, extents = self.kernel.code, self.work.extents
        first = code.named(self.panel * self.width + self.across * SIDE)
        dtype = self.type_of_sums
        whole = extents.columns % SIDE == 0 and writes_vectors(self.kernel, dtype)
        with code.block(f"if ({row.text} < {extents.rows})"):
            for lane in range(0, SIDE, SIDE if whole else 1):
                column = first + lane
                part = total if whole else Value(code, dtype, 1, f"{total.text}.s{lane}")
                with code.block(f"if ({column.text} < {extents.columns})"):
                    at = self.operands.place(row, column)
                    write_result(self.kernel, self.result(part, column), at, part.lanes)
