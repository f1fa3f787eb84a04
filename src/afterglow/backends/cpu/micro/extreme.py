"""The extreme element of a line, and where it is."""

from __future__ import annotations

import math

import numpy as np

from afterglow.backends.cpu.llvm.emitter import (
    Value,
    equal,
    is_nan,
    larger,
    maximum,
    minimum,
    select,
    smaller,
)
from afterglow.backends.cpu.micro.access import Reader
from afterglow.backends.cpu.micro.reduction_line import Position, ReductionLine
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, i32, i64
from afterglow.types.extent import largest

SHORT = 128
"""Elements of a line that is walked twice."""


def least(dtype: DType) -> float:
    """The least value of a type: no element is below it."""
    return -math.inf if dtype.is_float else int(np.iinfo(dtype.numpy).min)


def most(dtype: DType) -> float:
    """The largest value of a type: no element is above it."""
    return math.inf if dtype.is_float else int(np.iinfo(dtype.numpy).max)


@dataclass(frozen=True)
class ExtremeSearch:
    """The search for an extreme: the largest or the smallest, the first or the last of equal ones.

    NaN counts as more extreme than anything.
    """

    largest: bool = True
    last: bool = False

    def positions(self, line: ReductionLine, source: Reader) -> list[Value]:
        """Where the element is that is looked for, in each of the lines side by side."""
        dtype = line.lines.dtype
        counter = (
            i64 if dtype.bits > i32.bits or largest(line.lines.layout.length) >= 2**31 else i32
        )
        e, layout = line.p.e, line.lines.layout
        worst = e.constant(dtype, least(dtype) if self.largest else most(dtype))
        if not layout.across and largest(layout.length) <= SHORT:
            return [self._position_in_short(line, source, worst, counter)]

        def step(position: Position, carried: list[Value]) -> list[Value]:
            x = position.load(source)
            taken = self._replaces(x, carried[0])
            index = position.index_in_line(counter)
            return [select(taken, x, carried[0]), select(taken, index, carried[1])]

        found = line.fold([worst, e.constant(counter, 0)], step, self._combine)
        return [index for _, index in found]

    def _position_in_short(
        self, line: ReductionLine, source: Reader, worst: Value, counter: DType
    ) -> Value:
        """The extreme first, then where it is: fewer lanes to combine, but two walks."""
        extreme = maximum if self.largest else minimum
        nearer = larger if self.last else smaller
        nowhere = line.p.e.constant(counter, -1 if self.last else line.lines.layout.length)

        def find(position: Position, carried: list[Value]) -> list[Value]:
            return [extreme(carried[0], position.load(source))]

        ((best,),) = line.fold([worst], find, lambda a, b: [extreme(a[0], b[0])])

        def locate(position: Position, carried: list[Value]) -> list[Value]:
            here = _is_same(position.load(source), best)
            return [nearer(carried[0], select(here, position.index_in_line(counter), nowhere))]

        ((found,),) = line.fold([nowhere], locate, lambda a, b: [nearer(a[0], b[0])])
        return found

    def _replaces(self, x: Value, best: Value) -> Value:
        """Whether an element further on is better than the best so far."""
        if self.last:
            reaches = (x >= best) if self.largest else (x <= best)
            return reaches | is_nan(x) if x.dtype.is_float else reaches
        return self._beats(x, best)

    def _beats(self, x: Value, best: Value) -> Value:
        if not x.dtype.is_float:
            return (x > best) if self.largest else (x < best)
        below = (x <= best) if self.largest else (x >= best)
        return ~below & ~is_nan(best)

    def _combine(self, a: list[Value], b: list[Value]) -> list[Value]:
        same = _is_same(a[0], b[0])
        nearer = (b[1] > a[1]) if self.last else (b[1] < a[1])
        taken = self._beats(b[0], a[0]) | (same & nearer)
        return [select(taken, y, x) for x, y in zip(a, b, strict=True)]


def _is_same(x: Value, y: Value) -> Value:
    """Whether two elements are equal, or both NaN."""
    same = equal(x, y)
    return same | (is_nan(x) & is_nan(y)) if x.dtype.is_float else same
