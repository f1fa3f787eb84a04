"""Quickselect: the k best of entries in memory are moved to the front, as `TopK` orders them."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    FunctionSymbol,
    Index,
    Pointer,
    Value,
    larger,
    leading_zeros,
    quotient,
    select,
)
from afterglow.ops.search import SORTED_AT_ONCE, most_partitions
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import is_ranged


@dataclass(frozen=True)
class Entry:
    """An element and its place in the line."""

    value: Value
    place: Value


@dataclass(frozen=True)
class Entries:
    """Entries in memory."""

    values: Pointer
    places: Pointer

    def load(self, index: Index) -> Entry:
        """One of them."""
        return Entry(self.values.load(index), self.places.load(index))

    def store(self, entry: Entry, index: Index) -> None:
        """Write one of them."""
        self.values.store(entry.value, index)
        self.places.store(entry.place, index)

    def swap(self, one: Index, other: Index) -> None:
        """Let two of them change places."""
        first, second = self.load(one), self.load(other)
        self.store(first, other)
        self.store(second, one)

    def after(self, count: Index) -> Entries:
        """Those further on."""
        return Entries(self.values + count, self.places + count)


Before = Callable[[Entry, Entry], Value]
"""Whether an entry comes before another one in some order."""


def part_best(
    e: Emitter, k: int, length: int, entries: Entries, before: Before, sort: FunctionSymbol
) -> None:
    """Move the first k of an order to the front; `sort` sorts a number of entries by it."""

    def is_long(state: list[Value]) -> Value:
        start, stop, left = state
        return (stop - start > SORTED_AT_ONCE) & (left > 0)

    def part(state: list[Value]) -> list[Value]:
        start, stop, left = state
        cut = _partition(e, entries, start, stop, before)
        is_behind = cut < k
        return [select(is_behind, cut, start), select(is_behind, stop, cut), left - 1]

    whole = [e.index(0), e.index(length), _most_partitions(e, length)]
    start, stop, _ = e.iterate(whole, part, while_=is_long)
    rest = entries.after(start)
    e.run(sort, rest.values, rest.places, stop - start)


def _most_partitions(e: Emitter, length: int) -> Value:
    """As `most_partitions` of a length that may be ranged."""
    if not is_ranged(length):
        return e.index(most_partitions(length))
    bits = e.index_type.bits - leading_zeros(larger(e.index(length), 1))
    return 2 * (bits - 1)


def _partition(e: Emitter, entries: Entries, start: Value, stop: Value, before: Before) -> Value:
    """Put a pivot first, then what is before it; return where the others begin."""
    entries.swap(start, _median(entries, start, stop, before))
    pivot = entries.load(start)

    def narrowed(low: Value, high: Value) -> list[Value]:
        """The next that stands wrong from either end; the pivot stops both at the latest."""
        (low,) = e.iterate(
            [low], lambda s: [s[0] + 1], while_=lambda s: before(entries.load(s[0]), pivot)
        )
        (high,) = e.iterate(
            [high], lambda s: [s[0] - 1], while_=lambda s: before(pivot, entries.load(s[0]))
        )
        return [low, high]

    def exchange(state: list[Value]) -> list[Value]:
        low, high = state
        entries.swap(low, high)
        return narrowed(low + 1, high - 1)

    ends = narrowed(start + 1, stop - 1)
    return e.iterate(ends, exchange, while_=lambda state: state[0] < state[1])[0]


def _median(entries: Entries, start: Value, stop: Value, before: Before) -> Value:
    """Which of the second, the middle and the last entry is between the others."""
    a, b, c = start + 1, start + quotient(stop - start, 2), stop - 1
    first, second, third = (entries.load(place) for place in (a, b, c))
    below = before(first, second)
    low, high = select(below, a, b), select(below, b, a)
    above_low = before(entries.load(low), third)
    above_high = before(entries.load(high), third)
    return select(above_high, high, select(above_low, c, low))
