"""What a statement means in NumPy: its expression on the values of all indices at once.

Every array has an axis for each index of the statement, of extent 1 where it does not depend on it.
A large result is computed in blocks of its first index.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from afterglow.graph import Op
from afterglow.ops.comprehension.ranges import Range
from afterglow.ops.comprehension.tree import (
    Access,
    Affine,
    Call,
    Expression,
    Index,
    Number,
    Reduction,
    Statement,
    parts,
)
from afterglow.ops.comprehension.vocabulary import REDUCTIONS, apply_function
from afterglow.types import Array

_BLOCK = 1 << 20
"""Elements that are computed at once, if the first index allows it."""


def evaluate_statement(
    statement: Statement, ranges: Mapping[str, Range], tensors: Mapping[str, Array], dtype: Any
) -> Array:
    """The result of a statement; literals and indices are numbers of type `dtype`."""
    shape = tuple(ranges[name].extent for name in statement.free)
    blocks = [
        _Evaluation(statement, block, tensors, dtype).result()
        for block in _blocks(statement, ranges)
    ]
    return np.concatenate(blocks).reshape(shape) if shape else blocks[0]


def _blocks(statement: Statement, ranges: Mapping[str, Range]) -> Iterator[dict[str, Range]]:
    if not statement.free:
        yield dict(ranges)
        return
    first = statement.free[0]
    whole = ranges[first].extent
    others = math.prod(r.extent for name, r in ranges.items() if name != first)
    size = max(1, _BLOCK // max(1, others))
    for start in range(0, max(whole, 1), size):
        yield {**ranges, first: Range(start, min(size, whole - start))}


class _Evaluation:
    """A statement on some values of its indices."""

    def __init__(
        self,
        statement: Statement,
        ranges: Mapping[str, Range],
        tensors: Mapping[str, Array],
        dtype: Any,
    ) -> None:
        self.statement = statement
        self.ranges = ranges
        self.tensors = tensors
        self.dtype = dtype
        bound = (p.indices for p in parts(statement.value) if isinstance(p, Reduction))
        self.axes = (*statement.free, *(name for names in bound for name in names))

    def result(self) -> Array:
        """The elements for these values of the free indices."""
        value = self._value(self.statement.value)
        free = tuple(self.ranges[name].extent for name in self.statement.free)
        bound = (1,) * (len(self.axes) - len(free))
        return np.broadcast_to(value, free + bound).reshape(free)

    def _numbers(self, affine: Affine) -> Array:
        """The values of an index expression."""
        total: Array = np.full((1,) * len(self.axes), affine.constant)
        for name, factor in affine.terms:
            own = np.arange(self.ranges[name].extent) + self.ranges[name].first
            shape = [1] * len(self.axes)
            shape[self.axes.index(name)] = -1
            total = total + factor * own.reshape(shape)
        return total

    def _value(self, value: Expression) -> Array:
        match value:
            case Number(number):
                return np.full((1,) * len(self.axes), number, self.dtype)
            case Index(name):
                return self._numbers(Affine(0, ((name, 1),))).astype(self.dtype)
            case Access(tensor, indices):
                if not indices:
                    return self.tensors[tensor].reshape((1,) * len(self.axes))
                return self.tensors[tensor][tuple(map(self._numbers, indices))]
            case Call(function, arguments):
                found: Array = apply_function(function, _evaluated, *map(self._value, arguments))
                return found
            case Reduction(kind, indices, body):
                return self._reduced(kind, indices, self._value(body))

    def _reduced(self, kind: str, indices: tuple[str, ...], body: Array) -> Array:
        axes = tuple(self.axes.index(name) for name in indices)
        shape = list(body.shape)
        for axis, name in zip(axes, indices, strict=True):
            shape[axis] = self.ranges[name].extent
        result = np.asarray(_evaluated(REDUCTIONS[kind](axes), np.broadcast_to(body, shape)))
        return result.reshape([1 if i in axes else n for i, n in enumerate(shape)])


def _evaluated(op: Op, *operands: Array) -> Any:
    return op.evaluate(*operands)
