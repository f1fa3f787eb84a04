"""Whether the items of a batch are computed independently of each other.

If so, a large batch may be computed a few items at a time, by a program for few items. What an item
of the outputs needs is found backwards, node by node, from `Op.band`. It must be the same item of
the inputs, and found by the very ops that a smaller batch has.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

import numpy as np

from afterglow.graph import Constant, Cut, Function, Node, Value
from afterglow.graph.dims import dims_of_op, dims_of_type
from afterglow.graph.function import bind_op
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType
from afterglow.types.extent import Dim, Extents, dims_of, ranged

_TRIED = ((7, 3, 5), (5, 4, 5))
"""Batches and parts of them: the number of items, and where the part begins and ends."""


def has_items_first(type: TensorType, dim: Dim) -> bool:
    """Whether the first axis of a type, and no other, has the extent of a dimension."""
    first, *others = type.shape or (1,)
    return first == ranged(dim) and not dims_of(*others)


def items_are_apart(function: Function, dim: Dim) -> bool:
    """Whether each item of the outputs follows from the same item of the inputs, and no other.

    Items lie along the first axis of every output, and of every input that has the dimension.
    """
    given = [value.type for value in function.inputs if dims_of_type(value.type)]
    made = [output.value.type for output in function.outputs]
    if not made or not all(has_items_first(type, dim) for type in (*given, *made)):
        return False
    varying = _varying_values(function)
    return all(_Trial(function, dim, *tried, varying).succeeds() for tried in _TRIED)


def _varying_values(function: Function) -> set[Value]:
    """The values that depend on the items of a batch, or on how many there are."""
    varying: set[Value] = {value for value in function.inputs if dims_of_type(value.type)}
    for node in function.nodes:
        depends = any(operand in varying for operand in node.operands) or dims_of_op(node.op)
        if depends or any(dims_of_type(result.type) for result in node.results):
            varying.update(node.results)
    return varying


@dataclass
class _Trial:
    """A batch of so many items, and what some of them need."""

    function: Function
    dim: Dim
    items: int
    start: int
    stop: int
    varying: Collection[Value]
    needs: dict[Value, Cut] = field(default_factory=dict)

    @property
    def whole(self) -> Extents:
        """The extents of the batch."""
        return {self.dim.name: self.items}

    @property
    def part(self) -> Extents:
        """The extents of a batch that is as large as the part."""
        return {self.dim.name: self.stop - self.start}

    def succeeds(self) -> bool:
        """Whether the part needs just the same part of the inputs."""
        own = Cut(0, self.start, self.stop)
        if not all(self._needs(output.value, own) for output in self.function.outputs):
            return False
        if not all(self._is_alike(node) for node in reversed([*self.function.nodes])):
            return False
        return all(self.needs.get(value, own) == own for value in self.function.inputs)

    def _needs(self, value: Value, cut: Cut) -> bool:
        """Note which part of a value is needed; false if a smaller batch has no such value."""
        if isinstance(value, Constant):
            rows = np.moveaxis(value.data, cut.axis, 0)
            return bool(np.all(rows == rows[:1]))
        fits = cut.of(value.type.bind(self.whole)) == value.type.bind(self.part)
        return fits and self.needs.setdefault(value, cut) == cut

    def _is_alike(self, node: Node) -> bool:
        """Whether a node computes the part that is needed of it as it does in a smaller batch."""
        cuts = {self.needs[result] for result in node.results if result in self.needs}
        if not cuts:
            return True
        if len(cuts) > 1 or not node.op.pure or node.predicate is not None:
            return False
        types = [None if o is None else o.type.bind(self.whole) for o in node.operands]
        result = node.results[0].type.bind(self.whole)
        band = bind_op(node.op, self.whole).band(cuts.pop(), result, types)
        if band is None or band.skip or band.op != bind_op(node.op, self.part):
            return False
        reads = zip(node.operands, band.cuts, strict=True)
        return all(self._reads(operand, cut) for operand, cut in reads)

    def _reads(self, operand: Value | None, cut: Cut | None) -> bool:
        if operand is None:
            return True
        return operand not in self.varying if cut is None else self._needs(operand, cut)
