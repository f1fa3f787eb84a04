"""Bounds checks of numbers that data give as indices, lengths or counts, for all kernels.

A number that is out of range becomes the nearest that is not: whatever data hold, no kernel reads
or writes the memory of others. Unless the model is compiled unchecked, it also raises alarms, which
whoever started the run looks at once, at its end. That is off the way that is usually taken.
"""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import (
    Value,
    any_lane,
    clamp,
    convert,
    differ,
    equal,
    is_nan,
    select,
)
from afterglow.backends.cpu.micro.kernel import Check, Phase
from afterglow.types import IndexRange
from afterglow.types.dtype import DType, i64
from afterglow.types.extent import smallest

_LEAST = -(2**63)
"""What stands for a number that is none."""


class IndexCheck:
    """The numbers of one operand of the anchor, in the ranges that its op tells."""

    def __init__(self, p: Phase, operand: str) -> None:
        types = [None if b is None else b.type for b in p.step.ins]
        place = p.step.op.operand_names.index(operand)
        buffer = p.step.operand(place)
        self.p, self.operand, self.dtype = p, operand, buffer.type.dtype
        self.ranges = p.step.op.index_ranges(types)[operand]
        self.raises = not p.kernel.unchecked

    def place(self, number: Value, part: int = 0) -> Value:
        """A number as a count from the front, in range; `part` is its place along the last axis.

        One that is out of range raises alarms.
        """
        near, stray = self.find(number, part)
        if self.raises:
            outside = differ(stray, 0)
            if number.dtype.is_float:
                outside = outside | is_nan(number)
            self._raise_where(outside, number, self._allowed(part))
        return near

    def find(self, number: Value, part: int = 0) -> tuple[Value, Value]:
        """The same without alarms, and bits where an integer is out of range."""
        allowed, counted = self._allowed(part), self._whole(number)
        if smallest(allowed.low) < 0 and counted.dtype.is_signed:
            counted = select(counted < 0, counted + -allowed.low, counted)
        near = clamp(counted, 0, allowed.high)
        if smallest(allowed.high) < 0:  # there may be no elements, but there is room for some
            near = clamp(near, 0, None)
        return convert(near, number.code.index_type), near ^ counted

    def nothing(self, lanes: int) -> Value:
        """What `find` returns where nothing is out of range."""
        return self.p.e.constant(self._kind, 0, lanes)

    @property
    def _kind(self) -> DType:
        """An integer that no bit is lost in: at least as wide as those that count elements."""
        index = self.p.e.index_type
        fits = self.dtype.bits <= index.bits - (not self.dtype.is_signed)
        return index if self.dtype.is_float or fits else self.dtype

    def _whole(self, number: Value) -> Value:
        return convert(number, self._kind, saturate=number.dtype.is_float)

    def _allowed(self, part: int) -> IndexRange:
        allowed = self.ranges[part]
        assert allowed is not None
        return allowed

    def _raise_where(self, outside: Value, number: Value, allowed: IndexRange) -> None:
        """Raise the alarms, if a lane is out of range; the first to do so says which number."""
        e = self.p.e
        any_alarm, alarm = self.p.alarms(Check(self.operand, allowed))
        with e.when(any_lane(outside), likely=False), e.when(equal(alarm.load(), 0)):
            alarm.store(self._first(outside, number), 1)
            alarm.store(e.constant(i64, 1))
            any_alarm.store(e.constant(i64, 1))

    def _first(self, outside: Value, number: Value) -> Value:
        """The number of the first lane that is out of range."""
        found = number.lane(number.lanes - 1)
        for lane in range(number.lanes - 2, -1, -1):
            found = select(outside.lane(lane), number.lane(lane), found)
        if not number.dtype.is_float:
            return convert(found, i64)
        shown = convert(convert(found, self.p.e.index_type, saturate=True), i64)
        return select(is_nan(found), shown.like(_LEAST), shown)
