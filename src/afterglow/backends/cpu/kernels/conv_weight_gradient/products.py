"""Products of slopes with packed columns: tiles of results times panels, over blocks of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add

from afterglow.backends.cpu.kernels.conv.columns import Columns, each_kind
from afterglow.backends.cpu.kernels.conv_weight_gradient.packing import (
    Block,
    Packing,
    each_block,
    seen_lines,
    seen_windows,
    tap_indices,
)
from afterglow.backends.cpu.kernels.conv_weight_gradient.plan import WeightGradientPlan
from afterglow.backends.cpu.llvm.emitter import (
    Index,
    Pointer,
    Value,
    first_lanes,
    load_masked,
)
from afterglow.backends.cpu.micro.accumulate import Factors, broadcast_step
from afterglow.backends.cpu.micro.cost import REDUCED_ELEMENT
from afterglow.backends.cpu.micro.fusion import SinkRow
from afterglow.backends.cpu.micro.kernel import Kernel, Phase
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.micro.tile import tiles_of_block, within_run
from afterglow.support.lazy_dataclass import dataclass

FEW_PRODUCTS = 16
"""Multiplications of a step up to which a turn of the loop has several steps."""

TakeTile = Callable[[Value, list[list[Value]]], None]
"""What becomes of a tile: given its first row, and the sums of each of its rows."""


def write_products(k: Kernel, plan: WeightGradientPlan) -> None:
    """Write the phase that multiplies; if chunks share the windows, one that adds their sums."""
    with k.phase(plan.units, plan.work) as p:
        product = _Product(p, plan)
        with p.units() as unit:
            product.write(unit)
    if plan.joins:
        _write_joining(k, plan)


@dataclass(frozen=True)
class _Unit:
    """What a unit computes: tiles of a group, from `first` to before `last`, for some windows."""

    first: Index
    last: Index
    chunk: Value
    group: Value
    tap: Value
    panel: Value


class _Product:
    """The main phase while it is being written."""

    def __init__(self, p: Phase, plan: WeightGradientPlan) -> None:
        self.p, self.e, self.plan = p, p.e, plan
        self.packing, self.slopes = Packing(p, plan), p.pointer(plan.slopes)
        self.sink = None if plan.joins else p.sink()
        self.sums = self._sums()

    def _sums(self) -> Pointer | None:
        """Where the sums of several blocks meet."""
        if self.plan.joins:
            return self.p.workspace("sums")
        return None if self.plan.is_single else self.p.scratch("sums")

    def write(self, unit: Value) -> None:
        """One unit: a panel of the columns of a tap, or all columns."""
        e, plan = self.e, self.plan
        rest, part = split(unit, plan.parts)
        rest, panel = split(rest, plan.unit_panels)
        rest, tap = split(rest, plan.sets)
        chunk, group = split(rest, plan.groups)
        first, last = tiles_of_block(e, part, plan.tiles, plan.parts)
        places = (e.index(place) for place in (chunk, group, tap, panel))
        here = _Unit(first, last, *places)
        if not plan.by_tap:
            self._write_all(here)
            return
        for columns in each_kind(e, plan.panels, e.index(0), here.panel):
            self._write_panel(here, columns)

    def _write_panel(self, unit: _Unit, columns: Columns) -> None:
        """The sums of one panel, of channels that a tap sees."""
        e, plan = self.e, self.plan
        taps = tap_indices(e, plan.axes, unit.tap)
        seen = [seen_windows(axis, tap) for axis, tap in zip(plan.axes, taps, strict=True)]
        if self.sums is None:
            assert self.sink is not None
            block = Block(seen, e.index(0), seen_lines(e, plan, seen), *seen[-1])
            self.packing.write_panel(block, unit.group, taps, columns)
            self._each_tile(unit, columns, 0, block.count, self._put_rows(unit, columns))
            return
        to, line = self._room(unit, columns.width)
        self._clear(unit, to, line, columns.width)
        for block in each_block(e, plan, seen, unit.chunk, plan.chunks):
            self.packing.write_panel(block, unit.group, taps, columns)
            self._each_tile(unit, columns, 0, block.count, _add_rows(columns, to, line))
        if self.sink is not None:
            self._put_sums(unit, columns, to)

    def _write_all(self, unit: _Unit) -> None:
        """The sums of all panels, whose columns are packed at once."""
        e, plan = self.e, self.plan
        to, line = self._room(unit, plan.line)
        self._clear(unit, to, line, plan.line)
        seen = [(e.index(0), e.index(axis.count)) for axis in plan.axes]
        for block in each_block(e, plan, seen, unit.chunk, plan.chunks):
            self.packing.write_windows(block, unit.group)
            with e.loop(plan.panels.count, name="panel") as panel:
                for columns in each_kind(e, plan.panels, e.index(0), panel):
                    adding = _add_rows(columns, to + columns.first, line)
                    self._each_tile(unit, columns, columns.first, block.count, adding)

    def _room(self, unit: _Unit, width: int) -> tuple[Pointer, int]:
        """Where the sums of a unit lie, and how far apart its rows do."""
        plan = self.plan
        assert self.sums is not None
        if not plan.joins:
            return self.sums, width
        row = (unit.chunk * plan.groups + unit.group) * plan.results
        column = unit.tap * plan.panels.padded + unit.panel * plan.panels.width
        return self.sums + row * plan.line + column, plan.line

    def _clear(self, unit: _Unit, to: Pointer, line: int, width: int) -> None:
        """Begin sums with zeros."""
        first, last = self.plan.rows_of(self.e, unit.first, unit.last)
        with self.e.loop(last, start=first, name="row") as row:
            self.e.zero(to + row * line, width)

    def _each_tile(
        self, unit: _Unit, columns: Columns, column: Index, count: Value, take: TakeTile
    ) -> None:
        """Multiply the slopes of all tiles of a unit by the columns of packed windows."""
        plan, e = self.plan, self.e
        for run in plan.runs:
            start, stop = within_run(e, run, unit.first, unit.last, plan.tiles)
            with e.loop(stop, start=start, name="tile") as tile:
                row = tile * run.rows + run.shift
                result = self.slopes + (unit.group * plan.results + row) * plan.slopes.strides[-1]
                packed = self.packing.packed + column
                take(row, self._tile(result, packed, run.rows, columns, count))

    def _tile(
        self, result: Pointer, packed: Pointer, height: int, columns: Columns, count: Value
    ) -> list[list[Value]]:
        """The sums of a tile over packed windows, by rows."""
        e, plan = self.e, self.plan
        line = columns.width if plan.by_tap else plan.packed_line
        step = broadcast_step(plan.sums, columns.load)

        def body(window: Value, sums: list[Value]) -> list[Value]:
            place = result + self.packing.offsets.load(window)
            rows = [place + row * plan.slopes.strides[-1] for row in range(height)]
            return step(Factors(rows, packed + window * line), sums)

        widths = columns.widths
        zeros = [e.constant(plan.sums, 0, lanes) for lanes in widths] * height
        unroll = max(1, FEW_PRODUCTS // len(zeros))
        sums = e.fold(count, zeros, body, unroll=unroll, name="window")
        return [sums[start : start + len(widths)] for start in range(0, len(sums), len(widths))]

    def _put_rows(self, unit: _Unit, columns: Columns) -> TakeTile:
        """Tiles that are results as they are."""

        def take(row: Value, sums: list[list[Value]]) -> None:
            for number, values in enumerate(sums):
                self._put(unit, columns, row + number, values)

        return take

    def _put_sums(self, unit: _Unit, columns: Columns, to: Pointer) -> None:
        """Put what all blocks have added."""
        first, last = self.plan.rows_of(self.e, unit.first, unit.last)
        with self.e.loop(last, start=first, name="row") as row:
            self._put(unit, columns, row, columns.load(to + row * columns.width))

    def _put(self, unit: _Unit, columns: Columns, row: Value, values: Sequence[Value]) -> None:
        assert self.sink is not None
        result = (unit.group * self.plan.results + row) * self.plan.taps + unit.tap
        columns.put(self.sink, result, values)


def _add_rows(columns: Columns, to: Pointer, line: int) -> TakeTile:
    """Tiles that are added to the sums of other blocks."""

    def take(row: Value, sums: list[list[Value]]) -> None:
        for number, values in enumerate(sums):
            place = to + (row + number) * line
            for (start, lanes), value in zip(columns.vectors, values, strict=True):
                place.store(place.load(start, lanes) + value, start)

    return take


def _write_joining(k: Kernel, plan: WeightGradientPlan) -> None:
    """Write the phase that adds the sums of all chunks; a unit is a row of them."""
    channels, results = plan.inner, plan.groups * plan.results
    size = plan.chunks * results * plan.columns
    with k.phase(results, REDUCED_ELEMENT * size, "joined") as p:
        e, sink, sums = p.e, p.sink(), p.workspace("sums")
        columns = Panels.narrowed(channels, plan.lanes, 1)
        with p.units() as row, e.loop(plan.taps, name="tap") as tap:
            here = sums + row * plan.line + tap * plan.tap_stride
            result = sink.row(row * plan.taps + tap)
            with e.loop(columns.whole, name="panel") as panel:
                _put_joined(plan, result, here, panel * plan.lanes, plan.lanes, None)
            for lanes in columns.last:
                left = channels - columns.whole * plan.lanes
                mask = None if left == lanes else first_lanes(e.index(left), lanes)
                first = e.index(columns.whole * plan.lanes)
                _put_joined(plan, result, here, first, lanes, mask)


def _put_joined(
    plan: WeightGradientPlan,
    result: SinkRow,
    here: Pointer,
    first: Value,
    lanes: int,
    mask: Value | None,
) -> None:
    """Put one vector of a row: the sums of all chunks, one after the other."""
    distance = plan.groups * plan.results * plan.line
    loads = []
    for chunk in range(plan.chunks):
        place = here + first + chunk * distance
        loads.append(place.load(0, lanes) if mask is None else load_masked(place, mask))
    result.put(first, reduce(add, loads), mask)
