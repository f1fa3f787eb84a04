"""Walks along lines of a reduction: folding elements, and computing a result for each of them.

What a kernel does to a line is written once, whether vectors lie along it or across lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Value,
    convert,
    equal,
    first_lanes,
    lane_numbers,
    part,
    quotient,
    remainder,
    select,
    smaller,
)
from afterglow.backends.cpu.micro.access import Reader, Writer
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.reduction_lines import ReductionLines
from afterglow.backends.cpu.micro.rows import split
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType
from afterglow.types.extent import is_ranged, largest, smallest

Step = Callable[["Position", list[Value]], Sequence[Value]]
"""What is done at a position of a line: takes the values carried along, returns the next ones."""
Combine = Callable[[list[Value], list[Value]], Sequence[Value]]
"""Makes one of what two parts of a line have carried."""
Vectors = tuple[tuple[int, Value | None], ...]
"""Where vectors begin, and which of their lanes count."""
WriteGroup = Callable[[Index, Vectors], None]
"""Writes what is done to lines side by side, in vectors from a column on."""

UNROLL = 4
"""Vectors of a line that carry values of their own, so that one need not wait for the other."""
MANY_ROWS = 16
"""Short rows of a line that are enough for several of them to be walked in one turn."""
ROWS_AT_ONCE = 128
"""Rows of a line that are added up before their sum joins that of the others."""
MOST_FEW = 4
"""Vectors of a row up to which there is code for each number, where its length is ranged."""


@dataclass(frozen=True)
class Window:
    """Rows and columns of a line that are walked: from, and up to."""

    first_row: Index
    last_row: Index
    first_column: Index
    last_column: Index


@dataclass(frozen=True)
class ReductionLine:
    """A line; or lines side by side, in vectors from the column `start` on."""

    lines: ReductionLines
    p: Phase
    number: Index
    start: Index
    vectors: Vectors
    window: Window
    block: Index
    few: int = 0
    """Vectors that a row takes, the last one perhaps in part; 0 if that is not known."""

    def fold(
        self, initial: Sequence[Value], step: Step, combine: Combine, *, unroll: int = UNROLL
    ) -> list[list[Value]]:
        """Carry values along the line, and return what is left for each of the vectors.

        Along a line, several vectors carry values of their own; they and their lanes are combined,
        so that there is one scalar for each value. Lanes that do not count are unchanged.
        """
        start = [value.splat(self.lines.lanes) for value in initial]
        found = self._fold_blocks(start, step, combine, unroll)
        if self.lines.layout.across:
            return found
        return [_reduced(_in_pairs(found, combine), combine)]

    def _fold_blocks(
        self, start: list[Value], step: Step, combine: Combine, unroll: int
    ) -> list[list[Value]]:
        """Fold many rows in blocks, so that small numbers are not lost in a large sum."""
        window, cut = self.window, self.lines.cut
        most = self.lines.layout.rows if cut is None or cut.is_along_row else cut.size
        if largest(most) < 2 * ROWS_AT_ONCE:
            return self._walk(start, step, unroll)
        count = self._carriers(unroll)

        def block(first: Value, flat: list[Value]) -> list[Value]:
            last = smaller(first + ROWS_AT_ONCE, self.p.e.index(window.last_row))
            some = replace(self, window=replace(window, first_row=first, last_row=last))
            totals = _chunks(flat, len(start), count)
            parts = zip(totals, some._walk(start, step, unroll), strict=True)
            return [value for a, b in parts for value in combine(a, b)]

        flat = self.p.e.fold(
            window.last_row,
            start * count,
            block,
            start=window.first_row,
            step=ROWS_AT_ONCE,
            name="block",
        )
        return _chunks(flat, len(start), count)

    def each(self, visit: Callable[[Position], None], *, unroll: int = UNROLL) -> None:
        """Do something at every position of the line."""

        def step(position: Position, carried: list[Value]) -> list[Value]:
            visit(position)
            return carried

        self._walk([], step, unroll)

    def put(self, writer: Writer, results: Sequence[Value]) -> None:
        """Write one result for each line."""
        row = writer.row(self.number)
        for (offset, mask), result in zip(self.vectors, results, strict=True):
            row.put(self.start + offset, result, mask)

    def _walk(self, start: list[Value], step: Step, unroll: int) -> list[list[Value]]:
        window, size, count = self.window, len(start), self._carriers(unroll)

        def row(number: Value, flat: list[Value]) -> list[Value]:
            state = _chunks(flat, size, count)
            if self.lines.layout.across:
                state = self._across(number, state, step)
            elif has_short_rows(self.lines):
                state = [*state[1:], *self._along(number, state[:1], step)]
            else:
                state = self._along(number, state, step)
            return [value for values in state for value in values]

        flat = self.p.e.fold(
            window.last_row,
            start * count,
            row,
            start=window.first_row,
            unroll=count if has_short_rows(self.lines) else 1,
            name="row",
        )
        return _chunks(flat, size, count)

    def _carriers(self, unroll: int) -> int:
        """How many vectors carry values of their own."""
        if self.lines.layout.across:
            return len(self.vectors)
        if self.few:
            return self.few
        vectors = largest(self.lines.layout.columns) // self.lines.lanes
        return unroll if has_short_rows(self.lines) else max(1, min(unroll, vectors))

    def _across(self, row: Value, state: list[list[Value]], step: Step) -> list[list[Value]]:
        return [
            self._stepped(Position(self, row, self.start + offset, mask, which), carried, step)
            for which, ((offset, mask), carried) in enumerate(zip(self.vectors, state, strict=True))
        ]

    def _along(self, row: Value, state: list[list[Value]], step: Step) -> list[list[Value]]:
        """Several vectors a turn; then single ones; then what is left, under a mask."""
        if self.few:
            return self._along_few(row, state, step)
        e, lanes, unroll = self.p.e, self.lines.lanes, len(state)
        first, last = e.index(self.window.first_column), e.index(self.window.last_column)
        values = len(state[0])

        def turn(column: Value, flat: list[Value]) -> list[Value]:
            carried = _chunks(flat, values, unroll)
            for copy in range(unroll):
                position = Position(self, row, column + copy * lanes, None, 0)
                carried[copy] = self._stepped(position, carried[copy], step)
            return [value for values in carried for value in values]

        def single(column: Value, carried: list[Value]) -> list[Value]:
            return self._stepped(Position(self, row, column, None, 0), carried, step)

        flat = [value for values in state for value in values]
        whole = last - _rest(last - first, unroll * lanes)
        flat = e.fold(whole, flat, turn, start=first, step=unroll * lanes, name="column")
        state = _chunks(flat, values, unroll)
        vectors = last - _rest(last - first, lanes)
        if unroll > 1:
            state[0] = e.fold(vectors, state[0], single, start=whole, step=lanes, name="column")
        state[-1] = self._partial(row, vectors, last - vectors, state[-1], step)
        return state

    def _along_few(self, row: Value, state: list[list[Value]], step: Step) -> list[list[Value]]:
        """All vectors of a row, the last under a mask."""
        lanes, last = self.lines.lanes, self.p.e.index(self.window.last_column)
        left = last - (self.few - 1) * lanes
        masks = [*[None] * (self.few - 1), first_lanes(left, lanes)]
        return [
            self._stepped(Position(self, row, which * lanes, mask, 0), carried, step)
            for which, (mask, carried) in enumerate(zip(masks, state, strict=True))
        ]

    def _partial(
        self, row: Value, column: Value, left: Value, carried: list[Value], step: Step
    ) -> list[Value]:
        """The vector from a column on, of which some lanes are left."""

        def masked() -> list[Value]:
            mask = first_lanes(left, self.lines.lanes)
            return self._stepped(Position(self, row, column, mask, 0), carried, step)

        if left.constant is not None:
            return masked() if left.constant > 0 else carried
        if is_ranged(self.lines.layout.columns):
            return self.p.e.branch(left > 0, masked, lambda: carried)
        return masked()

    def _stepped(self, position: Position, carried: list[Value], step: Step) -> list[Value]:
        found = list(step(position, carried))
        if position.mask is None:
            return found
        return [select(position.mask, new, old) for new, old in zip(found, carried, strict=True)]


@dataclass(frozen=True)
class Position:
    """A vector of elements of a line, or of lines side by side, of which it is vector `which`."""

    line: ReductionLine
    row: Index
    column: Index
    mask: Value | None
    which: int

    @property
    def row_number(self) -> Index:
        """The number of the row, among the rows of all lines."""
        return self.line.number * self.line.lines.layout.rows + self.row

    @property
    def place(self) -> Index:
        """Where it begins in memory that has room for the line (or lines) alone."""
        return self.row * self.line.lines.room_of_row + (self.column - self.line.start)

    def index_in_line(self, dtype: DType) -> Value:
        """How many elements of the line come before each lane."""
        layout, lanes = self.line.lines.layout, self.line.lines.lanes
        e = self.line.p.e
        if layout.across:
            return convert(e.index(self.row), dtype).splat(lanes)
        first = convert(e.index(self.row * layout.columns + self.column), dtype)
        return first + lane_numbers(e, dtype, lanes)

    def load(self, reader: Reader) -> Value:
        """What is read there, in the type of the arithmetic."""
        lines = self.line.lines
        loaded = reader.row(self.row_number).load(self.column, lines.lanes, self.mask)
        return convert(loaded, lines.dtype).splat(lines.lanes)

    def put(self, writer: Writer, value: Value) -> None:
        """Write results there."""
        writer.row(self.row_number).put(self.column, value, self.mask)


def has_short_rows(lines: ReductionLines) -> bool:
    """Whether rows are short and many, so that one carrier for each row must do."""
    layout = lines.layout
    is_short = largest(layout.columns) < 2 * lines.lanes
    return not layout.across and is_short and largest(layout.rows) >= MANY_ROWS


def each_line(p: Phase, lines: ReductionLines, body: Callable[[ReductionLine], None]) -> None:
    """Write what is done to a line; several times where it depends on a ranged length."""
    if not _may_be_short(lines):
        _each_unit(p, lines, body, 0)
        return
    vectors = quotient(p.e.index(lines.layout.columns + lines.lanes - 1), lines.lanes)
    for few in range(1, MOST_FEW + 1):
        with p.e.when(equal(vectors, few) if few > 1 else vectors <= 1):
            _each_unit(p, lines, body, few)
    with p.e.when(vectors > MOST_FEW):
        _each_unit(p, lines, body, 0)


def _may_be_short(lines: ReductionLines) -> bool:
    """Whether the rows of a line fit a few vectors or not, depending on a ranged extent."""
    layout = lines.layout
    if layout.across or not is_ranged(layout.columns) or lines.lanes == 1:
        return False
    if (lines.cut is not None and lines.cut.is_along_row) or has_short_rows(lines):
        return False
    least, most = smallest(layout.columns), largest(layout.columns)
    return least <= MOST_FEW * lines.lanes < most


def _each_unit(
    p: Phase, lines: ReductionLines, body: Callable[[ReductionLine], None], few: int
) -> None:
    """Write what is done to a line; twice where not all groups are of the same size."""

    def write_at(number: Index, block: Index, start: Index, vectors: Vectors) -> None:
        window = _window(p.e, lines, block)
        body(ReductionLine(lines, p, number, start, vectors, window, block, few))

    with p.units() as unit:
        number, block = split(unit, lines.cut.blocks if lines.cut else 1)
        number, group = split(number, lines.groups)
        write = partial(write_at, number, block)
        if not lines.layout.across:
            write(0, ((0, None),))
        elif is_ranged(lines.layout.columns):
            _each_ranged_group(p.e, lines, group, write)
        else:
            _each_group(p.e, lines, group, write)


def _each_group(e: Emitter, lines: ReductionLines, group: Index, write: WriteGroup) -> None:
    """Lines side by side: a whole group of them, or those that are left."""
    width = lines.side * lines.lanes
    whole, rest = divmod(lines.layout.columns, width)
    if not whole or not rest:
        write(group * width, _vectors(e, lines.lanes, width if whole else rest))
        return
    with e.when(e.index(group) < whole):
        write(group * width, _vectors(e, lines.lanes, width))
    with e.when(e.index(group) >= whole):
        write(whole * width, _vectors(e, lines.lanes, rest))


def _each_ranged_group(e: Emitter, lines: ReductionLines, group: Index, write: WriteGroup) -> None:
    """The same of a ranged number of lines: of those that are left, few or many, under masks."""
    side, lanes = lines.side, lines.lanes
    start = e.index(group) * (side * lanes)
    left = e.index(lines.layout.columns) - start
    few = max(1, side // 4)
    with e.when(left >= side * lanes):
        write(start, _vectors(e, lanes, side * lanes))
    with e.when(left <= few * lanes if side > 1 else left < lanes):
        write(start, _masked_vectors(left, lanes, few))
    if few < side:
        with e.when((left > few * lanes) & (left < side * lanes)):
            write(start, _masked_vectors(left, lanes, side))


def _vectors(e: Emitter, lanes: int, columns: int) -> Vectors:
    whole = columns - columns % lanes
    found: list[tuple[int, Value | None]] = [(column, None) for column in range(0, whole, lanes)]
    if whole < columns:
        found.append((whole, first_lanes(e.index(columns - whole), lanes)))
    return tuple(found)


def _masked_vectors(left: Value, lanes: int, count: int) -> Vectors:
    starts = range(0, count * lanes, lanes)
    return tuple((column, first_lanes(left - column, lanes)) for column in starts)


def _window(e: Emitter, lines: ReductionLines, block: Index) -> Window:
    layout, cut = lines.layout, lines.cut
    if cut is None:
        return Window(0, layout.rows, 0, layout.columns)
    first = e.index(block) * cut.size
    last = first + cut.size
    last = last if cut.extent % cut.size == 0 else smaller(last, cut.extent)
    if cut.is_along_row:
        return Window(0, 1, first, last)
    return Window(first, last, 0, layout.columns)


def _rest(count: Value, step: int) -> Value:
    """count modulo a step."""
    if count.constant is not None:
        return count.like(int(count.constant) % step)
    return remainder(count, step)


def _chunks(flat: Sequence[Value], size: int, count: int) -> list[list[Value]]:
    return [list(flat[size * number : size * (number + 1)]) for number in range(count)]


def _in_pairs(parts: list[list[Value]], combine: Combine) -> list[Value]:
    while len(parts) > 1:
        halves = zip(parts[::2], parts[1::2], strict=False)
        odd = parts[-1:] if len(parts) % 2 else []
        parts = [*(list(combine(a, b)) for a, b in halves), *odd]
    return parts[0]


def _reduced(values: list[Value], combine: Combine) -> list[Value]:
    """All lanes as one: the upper half with the lower, as their number is a power of two."""
    while values and values[0].lanes > 1:
        half = values[0].lanes // 2
        lower = [part(value, 0, half) for value in values]
        values = list(combine(lower, [part(value, half, half) for value in values]))
    return values
