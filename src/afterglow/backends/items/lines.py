"""Softmax and norms: whoever computes a line of elements goes through it a few times."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial, reduce
from typing import Generic

from afterglow.backends.broadcast import chain_strides, strides_within
from afterglow.backends.items.anchors import shared
from afterglow.backends.items.around import read_number, write_result
from afterglow.backends.items.chain import load, places_of
from afterglow.backends.items.lanes import combine_lanes, lanes_along
from afterglow.backends.items.language import Combine, Kernel
from afterglow.backends.items.types import computed, is_number
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import call, maximum
from afterglow.instr import OpInstr
from afterglow.ops.normalization import LayerNorm, RMSNorm
from afterglow.ops.softmax import LogSoftmax, Softmax

ValuesAt = Callable[[list[ValueT], int], ValueT]
"""From a place to the values there, and at its neighbours: as many as it is told."""


def _accepts(step: OpInstr) -> bool:
    return is_number(step.outs[0].type.dtype)


class Line(Generic[ValueT]):
    """The elements along some axes of x, at one place of the others."""

    def __init__(self, kernel: Kernel[ValueT], axes: tuple[int, ...]) -> None:
        step = kernel.step
        self.kernel, self.step, self.axes = kernel, step, axes
        self.shape = step.outs[0].type.shape
        outer = tuple(1 if axis in axes else n for axis, n in enumerate(self.shape))
        self.size = math.prod(self.shape[axis] for axis in axes)
        self.lanes = self._lanes()
        self.team = kernel.team(math.prod(outer), self.size // self.lanes)
        self.outer = places_of(self.kernel, self.team.result, outer)

    def _lanes(self) -> int:
        """Neighbouring elements of the line that are read and written together."""
        job = self.kernel.job
        if len(self.shape) - 1 not in self.axes:
            return 1
        strides = {**chain_strides(job.after, self.shape), **chain_strides(job.before, self.shape)}
        own = [b for b in (*self.step.outs, *self.step.ins) if b is not None]
        beside = [strides_within(b, self.shape) for b in own]
        every = [*strides.values(), *beside]
        if not self.kernel.is_processor:
            return lanes_along(self.kernel, self.shape[-1], every)
        most = lanes_along(self.kernel, self.kernel.lanes, every)
        return min(most, 1 << (self.shape[-1].bit_length() - 1))

    @property
    def parts(self) -> list[tuple[int, int, int]]:
        """From where to where along the last axis elements are visited, and how many at once."""
        extent = self.shape[-1]
        whole = extent - extent % self.lanes if len(self.shape) - 1 in self.axes else extent
        rest = [(whole, extent, 1)] if whole < extent else []
        return [(0, whole, self.lanes), *rest]

    def each(self, part: tuple[int, int, int], visit: Callable[[list[ValueT]], None]) -> None:
        """Write code for every place of a part of the line, in order."""
        start, end, lanes = part
        with ExitStack() as loops:
            shape = (*self.shape[:-1], end)
            inner = self.team.loops(loops, shape, self.axes, lanes, start)
            visit([inner.get(axis, place) for axis, place in enumerate(self.outer)])

    def read(self, places: list[ValueT], lanes: int) -> ValueT:
        """The elements of x at a place."""
        return read_number(self.kernel, self.step.operand(0), places, lanes).splat(lanes)

    def beside(self, index: int, places: list[ValueT], lanes: int) -> ValueT | None:
        """The elements of another operand at a place, which is broadcast to x."""
        buffer = self.step.optional(index)
        if buffer is None:
            return None
        return load(self.kernel, buffer, places, strides_within(buffer, self.shape), lanes)

    def fold(self, start: float, combine: Combine[ValueT], value_at: ValuesAt[ValueT]) -> ValueT:
        """Combine a value of every place of the line."""
        found = [self._fold(part, start, combine, value_at) for part in self.parts]
        return self.team.combined(reduce(combine, found), combine)

    def _fold(
        self,
        part: tuple[int, int, int],
        start: float,
        combine: Combine[ValueT],
        value_at: ValuesAt[ValueT],
    ) -> ValueT:
        code, dtype, lanes = self.kernel.code, computed(self.step.outs[0].type.dtype), part[2]
        total = code.variable(code.constant(dtype, start, lanes))
        self.each(part, lambda at: code.assign(total, combine(total, value_at(at, lanes))))
        return combine_lanes(code, total, combine)

    def write(self, result_at: ValuesAt[ValueT]) -> None:
        """Write a result for every place."""
        for part in self.parts:
            lanes = part[2]
            self.each(part, partial(self._write, result_at, lanes))

    def _write(self, result_at: ValuesAt[ValueT], lanes: int, places: list[ValueT]) -> None:
        write_result(self.kernel, result_at(places, lanes), places, lanes)


def _add(total: ValueT, x: ValueT) -> ValueT:
    return total + x


def _axis_of(step: OpInstr) -> int:
    axis: int = getattr(step.op, "axis", -1)
    return axis % step.outs[0].type.rank


@shared(Softmax, LogSoftmax, accepts=_accepts, fuses=("x",))
def write_softmax(kernel: Kernel[ValueT]) -> None:
    """The largest, the sum of exponentials below it, then the results."""
    line = Line(kernel, (_axis_of(kernel.step),))
    peak = line.fold(float("-inf"), maximum, line.read)
    total = line.fold(0.0, _add, lambda at, n: call("exp_down", line.read(at, n) - peak))
    if isinstance(line.step.op, LogSoftmax):
        less = call("log", total)
        line.write(lambda at, n: (line.read(at, n) - peak) - less)
    else:
        line.write(lambda at, n: call("exp_down", line.read(at, n) - peak) / total)


@shared(LayerNorm, RMSNorm, accepts=_accepts, fuses=("x",))
def write_norm(kernel: Kernel[ValueT]) -> None:
    """The mean, the mean square around it, then the results."""
    step = kernel.step
    line = Line(kernel, tuple(range(_axis_of(step), step.outs[0].type.rank)))
    op = line.step.op
    assert isinstance(op, (LayerNorm, RMSNorm))
    mean = line.fold(0.0, _add, line.read) / line.size if isinstance(op, LayerNorm) else None

    def centred(places: list[ValueT], lanes: int) -> ValueT:
        x = line.read(places, lanes)
        return x if mean is None else x - mean

    def squared(places: list[ValueT], lanes: int) -> ValueT:
        x = centred(places, lanes)
        return x * x

    spread = call("sqrt", line.fold(0.0, _add, squared) / line.size + op.epsilon)

    def result(places: list[ValueT], lanes: int) -> ValueT:
        y = centred(places, lanes) / spread
        scale = line.beside(1, places, lanes)
        y = y if scale is None else y * scale
        bias = line.beside(2, places, lanes) if isinstance(op, LayerNorm) else None
        return y if bias is None else y + bias

    line.write(result)
