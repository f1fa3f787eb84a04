"""Sums over the steps of a scan: the gradients of what all its steps capture.

Where a step contributes a product of matrices, its factors are stacked, and one product after the
scan replaces a sum of small ones. So it is with sums over an axis of a factor. Everything else is
added up step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from afterglow.graph import Builder, Node, Placeholder, Value
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.reduction import ReduceSum

Total: TypeAlias = Callable[[Builder, Sequence[Value], Sequence[Value]], Value]
"""Emits a sum after the scan, from what the steps have added up and what was stacked."""


class StepSums:
    """How the values of a step are summed; its lists are what the body of the scan returns."""

    def __init__(
        self, b: Builder, length: int, changes: Callable[[Value], bool], values: Sequence[Value]
    ) -> None:
        self.b = b
        self.length = length
        self.changes = changes
        """Whether a value differs from step to step."""
        self.running: list[Placeholder] = []
        """The sums so far, inputs of the body."""
        self.summed: list[Value] = []
        self.stacked: list[Value] = []
        for value in values:
            self._find_factors(value)
        self._totals = [self._total(value) for value in values]

    def totals(self, b: Builder, summed: Sequence[Value], stacked: Sequence[Value]) -> list[Value]:
        """Emit the sums after the scan, given its results for `summed` and `stacked`."""
        return [total(b, summed, stacked) for total in self._totals]

    def _find_factors(self, value: Value) -> None:
        """Stack the factors of products, which sums of them can use as well."""
        match value.producer:
            case Node(Add(), [Value() as lhs, Value() as rhs]) if lhs.type == rhs.type:
                self._find_factors(lhs)
                self._find_factors(rhs)
            case Node(Transpose() | Reshape(), [Value() as operand]):
                self._find_factors(operand)
            case Node(MatMul(), [Value() as lhs, Value() as rhs]) if self._is_product(lhs, rhs):
                self.stacked.extend(v for v in (lhs, rhs) if v not in self.stacked)

    def _is_product(self, *factors: Value) -> bool:
        return all(factor.type.rank == 2 and self.changes(factor) for factor in factors)

    def _total(self, value: Value) -> Total:
        match value.producer:
            case Node(Add(), [Value() as lhs, Value() as rhs]) if lhs.type == rhs.type:
                left, right = self._total(lhs), self._total(rhs)
                return lambda b, *found: b.emit(Add(), left(b, *found), right(b, *found))
            case Node((Transpose() | Reshape()) as op, [Value() as operand]):
                before = self._total(operand)
                return lambda b, *found: b.emit(op, before(b, *found))
            case Node(MatMul() as op, [Value() as a, Value() as b]) if self._is_product(a, b):
                return self._product(op, self.stacked.index(a), self.stacked.index(b))
            case Node(ReduceSum(axes), [Value() as operand]) if operand in self.stacked:
                place = self.stacked.index(operand)
                return lambda b, _, stacked: _sum(b, axes, value, stacked[place])
        return self._added_up(value)

    def _product(self, op: MatMul, lhs: int, rhs: int) -> Total:
        """One product whose inner axis runs over all steps."""
        return lambda b, _, stacked: b.emit(
            op,
            _joined(b, stacked[lhs], inner=0 if op.transpose_lhs else 1),
            _joined(b, stacked[rhs], inner=1 if op.transpose_rhs else 0),
        )

    def _added_up(self, value: Value) -> Total:
        place = len(self.running)
        self.running.append(self.b.function.input("total", value.type))
        self.summed.append(self.b.emit(Add(), self.running[-1], value))
        return lambda b, summed, _: summed[place]


def _joined(b: Builder, stacked: Value, inner: int) -> Value:
    """Matrices of all steps as one, joined along an axis."""
    steps, rows, columns = stacked.type.shape
    if inner == 0:
        return b.emit(Reshape((steps * rows, columns)), stacked)
    return b.emit(Reshape((rows, steps * columns)), b.emit(Transpose((1, 0, 2)), stacked))


def _sum(b: Builder, axes: Sequence[int], value: Value, stacked: Value) -> Value:
    """The sum along axes and over all steps."""
    rank = stacked.type.rank - 1
    over = (0, *(axis % rank + 1 for axis in axes))
    return b.emit(Reshape(value.type.shape), b.emit(ReduceSum(over, keepdims=False), stacked))
