"""Ops that look along an axis for the largest or smallest, and where they are."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.ops.elementwise import Sub, scalar
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import ScatterReduction
from afterglow.ops.movement import Reshape, flip
from afterglow.ops.reduction import order_reversed, widened
from afterglow.ops.rules import normal_axis, require, require_number
from afterglow.ops.scatter import ScatterElements
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types.dtype import Kind, i64
from afterglow.types.extent import largest, smallest, undecided

FEW = 4
"""Fewer are always kept in a heap."""
FEW_OF_MANY = 0.725
"""So are those whose logarithm is less than this part of the logarithm of all."""
SORTED_AT_ONCE = 3
"""So few elements are not parted any more."""


def _require_ordered(x: TensorType) -> None:
    require_number(x=x)
    require(x.dtype.kind is not Kind.COMPLEX, f"complex numbers have no order, got {x}")


@op("top_k")
class TopK(Op):
    """The k largest (or smallest) elements along an axis, and their indices.

    Equal ones come in the order of x, and NaN counts as the largest of all. They are sorted, best
    first, or else in an order that ONNX Runtime gives them too. Few of many are a binary heap with
    the worst first: the first k elements fill it from its end, and each later one that is better
    than the worst takes its place and sinks. Others are what quickselect leaves in front.
    """

    result_names = ("values", "indices")
    k: int
    axis: int = -1
    largest: bool = True
    sorted: bool = True

    def infer(self, x: TensorType) -> tuple[TensorType, TensorType]:
        """The shape of x with k elements along the axis."""
        _require_ordered(x)
        axis = normal_axis(self.axis, x)
        require(0 <= self.k <= x.shape[axis], f"there are no {self.k} along axis {axis} of {x}")
        values = TensorType(x.dtype, (*x.shape[:axis], self.k, *x.shape[axis + 1 :]))
        return values, values.with_dtype(i64)

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        """A stable sort; for the largest of the reversed axis, so that ties stay in order."""
        if self.largest:
            backwards = np.argsort(np.flip(x, self.axis), axis=self.axis, kind="stable")
            order = x.shape[self.axis] - 1 - np.flip(backwards, self.axis)
        else:
            order = np.argsort(x, axis=self.axis, kind="stable")
        if self.sorted or not x.size:
            indices = order.take(np.arange(self.k), self.axis)
        else:
            select = _heap if self.keeps_heap(x.shape[self.axis]) else _quickselect
            indices = np.apply_along_axis(select, self.axis, np.argsort(order, self.axis), self.k)
        return np.take_along_axis(x, indices, self.axis), indices

    def keeps_heap(self, length: int) -> bool:
        """Whether unsorted results come from a heap: k is small, in itself or for the length."""
        if self.k < FEW:
            return True
        ends = {_is_small(self.k, end) for end in (smallest(length), largest(length))}
        if len(ends) > 1:
            raise undecided(f"in which order the {self.k} best of {length} come", length)
        return ends.pop()

    def gradient(self, b: Builder, out: tuple[Value, ...], grad: Gradients, x: Value) -> Gradients:
        """Back to where the elements were."""
        assert grad[0] is not None
        zeros = b.emit(Fill(x.type.shape, 0.0, x.type.dtype))
        back = ScatterElements(normal_axis(self.axis, x.type), ScatterReduction.ADD)
        return (b.emit(back, zeros, out[1], grad[0]),)

    def permuted(self, perm: tuple[int, ...]) -> TopK:
        """Along the same axis at its new place."""
        return replace(self, axis=perm.index(self.axis % len(perm)))


def _heap(ranks: Array, k: int) -> Array:
    """The places of the k lowest ranks in a heap that has the highest of them first."""
    heap = np.zeros(k, np.int64)
    for place in range(k):
        _sink(heap, k - 1 - place, place, ranks)
    for place in range(k, len(ranks) if k else 0):
        if ranks[place] < ranks[heap[0]]:
            _sink(heap, 0, place, ranks)
    return heap


def _sink(heap: Array, at: int, place: int, ranks: Array) -> None:
    """Put a place into a heap, behind those below it that have a higher rank."""
    while children := range(2 * at + 1, min(2 * at + 3, len(heap))):
        child = max(children, key=lambda c: ranks[heap[c]])
        if ranks[heap[child]] < ranks[place]:
            break
        heap[at], at = heap[child], child
    heap[at] = place


def _quickselect(ranks: Array, k: int) -> Array:
    """The places of the k lowest ranks, in the order in which partitions leave them.

    The pivot is the median of the second, the middle and the last; three or fewer are sorted.
    After many uneven partitions all that is left is sorted, where others keep a heap.
    """
    places, start, stop = list(range(len(ranks))), 0, len(ranks)
    for _ in range(most_partitions(len(ranks))):
        if stop - start <= SORTED_AT_ONCE:
            break
        cut = _partition(places, start, stop, ranks)
        start, stop = (cut, stop) if cut < k else (start, cut)
    places[start:stop] = sorted(places[start:stop], key=lambda place: int(ranks[place]))
    return np.array(places[:k], np.int64)


def _is_small(k: int, length: int) -> bool:
    return math.log2(k) / math.log2(length) < FEW_OF_MANY


def most_partitions(length: int) -> int:
    """How many partitions are tried before what is left is sorted: two for each halving."""
    return 2 * (max(1, length).bit_length() - 1)


def _partition(places: list[int], start: int, stop: int, ranks: Array) -> int:
    """Put a pivot first, then lower ranks before higher ones; return where the higher begin."""
    at = [start + 1, start + (stop - start) // 2, stop - 1]
    median = sorted(at, key=lambda index: int(ranks[places[index]]))[1]
    places[start], places[median] = places[median], places[start]
    pivot = ranks[places[start]]
    low, high = start + 1, stop - 1
    while True:
        while ranks[places[low]] < pivot:
            low += 1
        while ranks[places[high]] > pivot:
            high -= 1
        if low >= high:
            return low
        places[low], places[high] = places[high], places[low]
        low, high = low + 1, high - 1


@dataclass(frozen=True, repr=False)
class ArgExtreme(Op):
    """Base: where along an axis the extreme element is; the first, or the last of equal ones."""

    axis: int = 0
    keepdims: bool = True
    last_index: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """The shape without the axis, or with extent 1 in its place."""
        _require_ordered(x)
        axis = normal_axis(self.axis, x)
        require(x.shape[axis] > 0, f"axis {axis} of {x} has no elements to choose from")
        kept = (1,) if self.keepdims else ()
        return TensorType(i64, (*x.shape[:axis], *kept, *x.shape[axis + 1 :]))

    def permuted(self, perm: tuple[int, ...]) -> Op | None:
        """Along the same axis at its new place, if the rank stays."""
        return replace(self, axis=perm.index(self.axis % len(perm))) if self.keepdims else None


@op("arg_max")
class ArgMax(ArgExtreme):
    """The index of the largest element along an axis; NaN counts as the largest."""

    def evaluate(self, x: Array) -> Array:
        """NumPy's argmax, from either end."""
        if not self.last_index:
            return np.argmax(x, self.axis, keepdims=self.keepdims)
        found = np.argmax(np.flip(x, self.axis), self.axis, keepdims=self.keepdims)
        return x.shape[self.axis] - 1 - found

    def lower(self, b: Builder, x: Value) -> Value:
        """The first of the sorted elements, from either end."""
        axis = normal_axis(self.axis, x.type)
        searched = b.emit(flip(x.type, axis), x) if self.last_index else x
        _, found = b.emit_all(TopK(1, axis), searched)
        if self.last_index:
            found = b.emit(Sub(), scalar(b, x.type.shape[axis] - 1, found), found)
        return found if self.keepdims else b.emit(Reshape(self.infer(x.type).shape), found)


@op("arg_min")
class ArgMin(ArgExtreme):
    """The index of the smallest element along an axis; NaN counts as the smallest."""

    def evaluate(self, x: Array) -> Array:
        """NumPy's argmin, from either end."""
        if not self.last_index:
            return np.argmin(x, self.axis, keepdims=self.keepdims)
        found = np.argmin(np.flip(x, self.axis), self.axis, keepdims=self.keepdims)
        return x.shape[self.axis] - 1 - found

    def lower(self, b: Builder, x: Value) -> Value:
        """Where the largest is in the reversed order."""
        largest = ArgMax(self.axis, self.keepdims, self.last_index)
        return b.emit(largest, order_reversed(b, widened(b, x)))
