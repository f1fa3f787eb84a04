"""The k best of each line, by insertion, by sorting batches of candidates, or by a heap.

Those that need not be sorted may as well be parted from the others (`quickselect.py`).

Most elements are turned away at once, by comparing a vector of them with the worst of the k best.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from afterglow.backends.broadcast import Strides, strides_within
from afterglow.backends.cpu.kernels.quickselect import Before, Entries, Entry, part_best
from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    FunctionSymbol,
    Pointer,
    Value,
    any_lane,
    convert,
    equal,
    first_lanes,
    is_nan,
    larger,
    quotient,
    select,
    smaller,
)
from afterglow.backends.cpu.micro.access import (
    RowReader,
    open_sink,
    open_source,
    placed_sink,
    placed_source,
)
from afterglow.backends.cpu.micro.cost import TOP_K_ELEMENT, work_of
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.reduction_lines import arithmetic_type
from afterglow.backends.cpu.micro.rows import Rows
from afterglow.ops.search import TopK
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, i32, i64
from afterglow.types.extent import largest, smaller_extent

FEW = 16
"""The largest k for which the best are kept sorted by insertion."""

Join = Callable[[Entry], None]
"""What is done to an entry that is better than the worst of the k best."""


@dataclass(frozen=True)
class _Selection:
    """What is selected from lines of `length` elements, of which `room` fit among candidates."""

    op: TopK
    length: int
    dtype: DType
    lanes: int

    @property
    def inserts(self) -> bool:
        """Whether the k best are kept sorted, rather than sorted from time to time."""
        return self.op.k <= FEW

    @property
    def room(self) -> int:
        """How many candidates there may be at once, the k best included."""
        if self.parts:
            return self.length
        if self.inserts or not self.op.sorted:
            return self.op.k
        return smaller_extent(self.length, 2 * self.op.k)

    @property
    def parts(self) -> bool:
        """Whether the k best are parted from the others, all of which are candidates."""
        return not self.op.sorted and not self.op.keeps_heap(self.length)

    @property
    def worst(self) -> int:
        """Where the worst of the k best is: last if they are sorted, first in a heap."""
        return self.op.k - 1 if self.op.sorted else 0

    @property
    def place_dtype(self) -> DType:
        """The type in which places are counted."""
        return i32 if largest(self.length) < 2**31 else i64

    def beats(self, x: Value, y: Value) -> Value:
        """Whether x is better than y: NaN is the largest of all."""
        above, below = (x, y) if self.op.largest else (y, x)
        if not x.dtype.is_float:
            return above > below
        return ~(above <= below) & ~is_nan(below)

    def precedes(self, a: Entry, b: Entry) -> Value:
        """Whether a is better than b, or as good and before it."""
        is_worse = self.beats(b.value, a.value)
        return self.beats(a.value, b.value) | (~is_worse & (a.place < b.place))

    def element(self, row: RowReader, place: Value) -> Entry:
        """An element of a row."""
        return Entry(convert(row.load(place, 1), self.dtype), convert(place, self.place_dtype))


def _selection(r: KernelRequest) -> _Selection:
    op, x = r.step.op, r.step.required[0]
    assert isinstance(op, TopK)
    dtype, length = arithmetic_type(x.type.dtype), x.type.shape[op.axis % x.type.rank]
    return _Selection(op, length, dtype, full_lanes(r.target, dtype))


def _needs(r: KernelRequest) -> KernelNeeds:
    """Memory for the candidates, and for as many that are being sorted."""
    chosen = _selection(r)
    count = 2 * (chosen.room + 1)
    places = chosen.place_dtype
    return KernelNeeds(
        scratch={
            "values": Storage(chosen.dtype, count),
            "places": Storage(places, count),
            "count": Storage(i64, 1),
        }
    )


@kernel(TopK, needs=_needs)
def write_top_k(k: Kernel) -> None:
    """Write the kernel of the k best."""
    op, x = k.step.op, k.step.required[0]
    assert isinstance(op, TopK)
    axis = op.axis % x.type.rank
    length, chosen = x.type.shape[axis], _selection(k)
    shape = (*_last(x.type.shape, axis)[:-1], length)
    results = (*shape[:-1], op.k)
    with k.phase(math.prod(shape[:-1]), work_of(x.type.size, TOP_K_ELEMENT)) as p:
        source = open_source(p, shape, {b: _last(s, axis) for b, s in placed_source(k).items()})
        sink = open_sink(p, results, {b: _last(s, axis) for b, s in placed_sink(k).items()})
        indices = k.step.outs[1]
        own = _last(strides_within(indices, indices.type.shape), axis)
        places = Rows(p.pointer(indices), results, own)
        entries = Entries(p.scratch("values"), p.scratch("places"))
        count = p.scratch("count").cast(p.e.index_type)
        with p.units() as line:
            _select(p, chosen, source.row(line), entries, count)
            values, found = sink.row(line), places.row(line)
            with p.e.loop(op.k) as rank:
                entry = entries.load(rank)
                values.put(rank, entry.value)
                found.store(convert(entry.place, i64), rank)


def _last(numbers: Strides, axis: int) -> Strides:
    """Extents or strides with those of one axis moved to the end."""
    return (*numbers[:axis], *numbers[axis + 1 :], numbers[axis])


def _select(p: Phase, chosen: _Selection, row: RowReader, entries: Entries, count: Pointer) -> None:
    """Leave the k best of a row as the first entries."""
    e, k = p.e, chosen.op.k
    if chosen.parts:
        sort = _write_sort(p, chosen, "by_value_and_place", chosen.precedes)
        with e.loop(chosen.length) as place:
            entries.store(chosen.element(row, place), place)
        part_best(e, chosen.op.k, chosen.length, entries, chosen.precedes, sort)
    elif not chosen.op.sorted:
        _keep_heap(e, chosen, row, entries)
    elif chosen.inserts:
        with e.loop(k) as place:
            _insert(e, chosen, entries, chosen.element(row, place), place)
        last = e.index(k - 1)
        _visit_better(
            e, chosen, row, entries, lambda entry: _insert(e, chosen, entries, entry, last)
        )
    else:
        _sort_candidates(p, chosen, row, entries, count)


def _keep_heap(e: Emitter, chosen: _Selection, row: RowReader, entries: Entries) -> None:
    """Fill a heap from its end, then let better elements take the place of the worst."""
    k = chosen.op.k
    with e.loop(k) as place:
        _sink(e, chosen, entries, chosen.element(row, place), k - 1 - place)
    root = e.index(0)
    _visit_better(e, chosen, row, entries, lambda entry: _sink(e, chosen, entries, entry, root))


def _sink(e: Emitter, chosen: _Selection, entries: Entries, entry: Entry, start: Value) -> None:
    """Put an entry at a place of the heap, and worse ones from below it in front of it."""
    k = chosen.op.k

    def worse_child(hole: Value) -> Value:
        left, right = smaller(2 * hole + 1, k - 1), smaller(2 * hole + 2, k - 1)
        is_left = chosen.precedes(entries.load(right), entries.load(left))
        return select(is_left, left, right)

    def belongs_below(state: list[Value]) -> Value:
        hole, child = state
        return (2 * hole + 1 < k) & chosen.precedes(entry, entries.load(child))

    def move(state: list[Value]) -> list[Value]:
        hole, child = state
        entries.store(entries.load(child), hole)
        return [child, worse_child(child)]

    hole, _ = e.iterate([start, worse_child(start)], move, while_=belongs_below)
    entries.store(entry, hole)


def _insert(e: Emitter, chosen: _Selection, entries: Entries, entry: Entry, last: Value) -> None:
    """Put an entry where it belongs among the sorted ones before `last`, which is overwritten."""

    def belongs_before(state: list[Value]) -> Value:
        neighbour = entries.values.load(larger(state[0], 1) - 1)
        return (state[0] > 0) & chosen.beats(entry.value, neighbour)

    def move(state: list[Value]) -> list[Value]:
        entries.store(entries.load(state[0] - 1), state[0])
        return [state[0] - 1]

    (place,) = e.iterate([last], move, while_=belongs_before)
    entries.store(entry, place)


def _sort_candidates(
    p: Phase, chosen: _Selection, row: RowReader, entries: Entries, count: Pointer
) -> None:
    """Gather candidates; sort them when there is no more room, and in the end."""
    e, k, room = p.e, chosen.op.k, chosen.room
    sort = _write_sort(p, chosen, "by_value", lambda a, b: chosen.beats(a.value, b.value))
    with e.loop(room) as place:
        entries.store(chosen.element(row, place), place)
    e.run(sort, entries.values, entries.places, e.index(room))
    if room == chosen.length:
        return
    count.store(e.index(k))

    def join(entry: Entry) -> None:
        number = count.load()
        entries.store(entry, number)
        count.store(number + 1)
        with e.when(equal(number, room - 1), likely=False):
            e.run(sort, entries.values, entries.places, e.index(room))
            count.store(e.index(k))

    _visit_better(e, chosen, row, entries, join)
    e.run(sort, entries.values, entries.places, count.load())


def _visit_better(
    e: Emitter, chosen: _Selection, row: RowReader, entries: Entries, join: Join
) -> None:
    """Let elements after the first ones join that are better than the worst of the k best."""
    lanes, length, worst = chosen.lanes, chosen.length, chosen.worst
    if chosen.room == length:
        return
    with e.loop(length, start=chosen.room, step=lanes) as first:
        mask = first_lanes(length - first, lanes)
        vector = convert(row.load(first, lanes, mask), chosen.dtype).splat(lanes)
        hits = chosen.beats(vector, entries.values.load(worst)) & mask
        with (
            e.when(any_lane(hits), likely=False),
            e.loop(smaller(first + lanes, length), start=first) as place,
        ):
            entry = chosen.element(row, place)
            with e.when(chosen.beats(entry.value, entries.values.load(worst))):
                join(entry)


def _write_sort(p: Phase, chosen: _Selection, name: str, before: Before) -> FunctionSymbol:
    """A function that sorts the first entries, by merging; equal ones stay in order."""

    def write(e: Emitter) -> None:
        values, places = e.pointer("values", chosen.dtype), e.pointer("places", chosen.place_dtype)
        count = e.count("count")
        entries = Entries(values, places)
        merged = entries.after(largest(chosen.room) + 1)

        def double(state: list[Value]) -> list[Value]:
            (run,) = state
            with e.loop(quotient(count + 2 * run - 1, 2 * run)) as pair:
                _merge(e, entries, merged, pair * run * 2, run, count, before)
            e.copy(entries.values, merged.values, count)
            e.copy(entries.places, merged.places, count)
            return [2 * run]

        e.iterate([e.index(1)], double, while_=lambda state: state[0] < count)

    return p.kernel.module.helper(f"{p.kernel.name}_{name}", write)


def _merge(
    e: Emitter,
    entries: Entries,
    merged: Entries,
    first: Value,
    run: Value,
    count: Value,
    before: Before,
) -> None:
    """Merge two neighbouring runs that are sorted; the second may be short, or none."""
    middle = smaller(first + run, count)
    last = smaller(middle + run, count)

    def step(place: Value, state: list[Value]) -> list[Value]:
        left, right = state
        a, b = entries.load(left), entries.load(right)
        from_left = (left < middle) & (~(right < last) | ~before(b, a))
        value = select(from_left, a.value, b.value)
        merged.store(Entry(value, select(from_left, a.place, b.place)), place)
        taken = convert(from_left, e.index_type)
        return [left + taken, right + (1 - taken)]

    e.fold(last, [first, middle], step, start=first)
