"""Estimates of what batches cost that are computed in slices, in bytes from and to memory.

A value that is read again before much else was touched is still in the cache. Whether it is depends
on the items of a slice: few of them keep values in the cache, but read the weights more often, and
have more steps, of which each gives the cores less to share.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from afterglow.graph import Constant, Function, Node, Value
from afterglow.lowering.schedule import peak_bytes
from afterglow.support.lazy_dataclass import dataclass

CACHE_PART = 0.5
"""How much of the cache serves values: other programs, and what is prefetched, take the rest."""

STEP_BYTES = 192 << 10
"""What one more step costs each core, in bytes that could come from memory meanwhile."""

MISSED_BYTE = 3.0
"""What a byte of a value costs that left the cache: fetched to be written, written, and read."""

WEIGHT_BYTE = 0.5
"""What a byte of a weight costs in memory: it is read in order, while others are multiplied."""

CACHED_WEIGHT_BYTE = 0.125
"""The same in the cache."""


@dataclass(frozen=True)
class CacheSharing:
    """The last level of caches, and how many cores work with it."""

    nbytes: int
    cores: int = 1


@dataclass(frozen=True)
class _Reuse:
    """A value that is read: its bytes, and those of what was touched since it was before."""

    nbytes: float
    values: float
    weights: float

    def misses(self, items: int, room: float) -> bool:
        """Whether it is no longer in the cache with so many items, by bytes for each."""
        return self.values * items + self.weights > room


@dataclass(frozen=True)
class BatchTraffic:
    """What the items of a batch touch: all bytes of values are those of one item."""

    items: int
    reads: tuple[_Reuse, ...]
    weights: float
    peak: float
    """Bytes of the values that are needed at the same time."""
    steps: int

    @staticmethod
    def of(function: Function, items: int) -> BatchTraffic:
        """What a function touches that computes so many items."""
        return _Survey(function, items).traffic()

    def fits(self, cache: CacheSharing) -> bool:
        """Whether the whole batch stays in the cache, with the weights."""
        return self.peak * self.items + self.weights <= CACHE_PART * cache.nbytes

    def cost(self, slice_items: int, cache: CacheSharing) -> float:
        """What a batch costs that is computed so many items at a time."""
        room = CACHE_PART * cache.nbytes
        slices = -(-self.items // slice_items)
        missed = sum(read.nbytes for read in self.reads if read.misses(slice_items, room))
        passes_through = self.peak * slice_items + self.weights > cache.nbytes
        weights = self.weights * (WEIGHT_BYTE if passes_through else CACHED_WEIGHT_BYTE)
        steps = self.steps * STEP_BYTES * cache.cores
        return MISSED_BYTE * missed * self.items + slices * (weights + steps)


class _Survey:
    """Walks over the steps of a function: nodes, with the element-wise ones behind them."""

    def __init__(self, function: Function, items: int) -> None:
        self.function, self.items = function, items
        self.nodes = [*function.nodes]
        self.stored = {r for node in self.nodes for r in node.results if not _is_fused(r)}
        self.peak = peak_bytes(function) / items
        self.values = [*accumulate(map(self._touched, self.nodes), initial=0.0)]
        self.weights = [*accumulate(map(_weights, self.nodes), initial=0.0)]

    def traffic(self) -> BatchTraffic:
        """What it finds."""
        steps = sum(any(r in self.stored for r in node.results) for node in self.nodes)
        reads = tuple(self._reads())
        return BatchTraffic(self.items, reads, self.weights[-1], self.peak, steps)

    def _reads(self) -> Iterable[_Reuse]:
        seen: dict[Value, int] = {}
        for place, node in enumerate(self.nodes):
            for value in dict.fromkeys(node.operands):
                if value in seen:
                    assert value is not None
                    yield self._reuse(value, seen[value], place + 1)
                    seen[value] = place + 1
            seen.update((result, place + 1) for result in node.results if result in self.stored)

    def _reuse(self, value: Value, since: int, until: int) -> _Reuse:
        # Values take the memory of others, so that no more is touched than all take at once.
        values = min(self.peak, self.values[until] - self.values[since])
        weights = self.weights[until] - self.weights[since]
        return _Reuse(self._item_bytes(value), values, weights)

    def _touched(self, node: Node) -> float:
        touched = dict.fromkeys((*node.operands, *node.results))
        return sum(self._item_bytes(value) for value in touched if value in self.stored)

    def _item_bytes(self, value: Value | None) -> float:
        return 0.0 if value is None else value.type.nbytes / self.items


def _is_fused(value: Value) -> bool:
    """Whether a value is probably never stored: one element-wise op reads it, where it is made."""
    readers = value.users
    return len(readers) == 1 and readers[0].op.elementwise


def _weights(node: Node) -> float:
    operands = {operand for operand in node.operands if isinstance(operand, Constant)}
    return sum(constant.type.nbytes for constant in operands)
