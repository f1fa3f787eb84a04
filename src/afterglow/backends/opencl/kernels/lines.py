"""Softmax and norms: whoever computes a line of elements goes through it a few times."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial, reduce

from afterglow.backends.broadcast import chain_strides, strides_within
from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.clc.types import computed, is_number
from afterglow.backends.opencl.kernels.anchors import anchor
from afterglow.backends.opencl.kernels.around import read_number, write_result
from afterglow.backends.opencl.kernels.chain import load, places_of
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.lanes import Combine, combine_lanes, lanes_along
from afterglow.backends.opencl.kernels.team import Team
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.pointwise.vocabulary import call, maximum
from afterglow.instr import OpInstr
from afterglow.ops.normalization import LayerNorm, RMSNorm
from afterglow.ops.softmax import LogSoftmax, Softmax

ValuesAt = Callable[[list[Value], int], Value]
"""From a place to the values there, and at its neighbours: as many as it is told."""


def _accepts(step: OpInstr, limits: Limits) -> bool:
    return is_number(step.outs[0].type.dtype)


class Line:
    """The elements along some axes of x, at one place of the others."""

    def __init__(self, job: Job, limits: Limits, axes: tuple[int, ...]) -> None:
        self.kernel = Kernel(job, limits)
        step = self.kernel.step
        self.step, self.axes = step, axes
        self.shape = step.outs[0].type.shape
        outer = tuple(1 if axis in axes else n for axis, n in enumerate(self.shape))
        self.size = math.prod(self.shape[axis] for axis in axes)
        self.lanes = self._lanes()
        self.team = Team.of(self.kernel, math.prod(outer), self.size // self.lanes)
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
        if not self.kernel.limits.is_processor:
            return lanes_along(self.kernel, self.shape[-1], every)
        most = lanes_along(self.kernel, self.kernel.limits.lanes, every)
        return min(most, 1 << (self.shape[-1].bit_length() - 1))

    @property
    def parts(self) -> list[tuple[int, int, int]]:
        """From where to where along the last axis elements are visited, and how many at once."""
        extent = self.shape[-1]
        whole = extent - extent % self.lanes if len(self.shape) - 1 in self.axes else extent
        rest = [(whole, extent, 1)] if whole < extent else []
        return [(0, whole, self.lanes), *rest]

    def each(self, part: tuple[int, int, int], visit: Callable[[list[Value]], None]) -> None:
        """Write code for every place of a part of the line, in order."""
        start, end, lanes = part
        with ExitStack() as loops:
            shape = (*self.shape[:-1], end)
            inner = self.team.loops(loops, shape, self.axes, lanes, start)
            visit([inner.get(axis, place) for axis, place in enumerate(self.outer)])

    def read(self, places: list[Value], lanes: int) -> Value:
        """The elements of x at a place."""
        return read_number(self.kernel, self.step.operand(0), places, lanes).splat(lanes)

    def beside(self, index: int, places: list[Value], lanes: int) -> Value | None:
        """The elements of another operand at a place, which is broadcast to x."""
        buffer = self.step.optional(index)
        if buffer is None:
            return None
        return load(self.kernel, buffer, places, strides_within(buffer, self.shape), lanes)

    def fold(self, start: float, combine: Combine, value_at: ValuesAt) -> Value:
        """Combine a value of every place of the line."""
        found = [self._fold(part, start, combine, value_at) for part in self.parts]
        return self.team.combined(reduce(combine, found), combine)

    def _fold(
        self, part: tuple[int, int, int], start: float, combine: Combine, value_at: ValuesAt
    ) -> Value:
        code, dtype, lanes = self.kernel.code, computed(self.step.outs[0].type.dtype), part[2]
        total = code.variable(code.constant(dtype, start, lanes))
        self.each(part, lambda at: code.assign(total, combine(total, value_at(at, lanes))))
        return combine_lanes(total, combine)

    def finish(self, result_at: ValuesAt) -> KernelSource:
        """Write a result for every place, and end the kernel."""
        for part in self.parts:
            lanes = part[2]
            self.each(part, partial(self._write, result_at, lanes))
        return self.kernel.finish()

    def _write(self, result_at: ValuesAt, lanes: int, places: list[Value]) -> None:
        write_result(self.kernel, result_at(places, lanes), places, lanes)


def _add(total: Value, x: Value) -> Value:
    return total + x


def _axis_of(job: Job) -> int:
    step = job.anchor
    assert step is not None
    axis: int = getattr(step.op, "axis", -1)
    return axis % step.outs[0].type.rank


@anchor(Softmax, LogSoftmax, accepts=_accepts, fuses=("x",))
def write_softmax(job: Job, limits: Limits) -> KernelSource:
    """The largest, the sum of exponentials below it, then the results."""
    line = Line(job, limits, (_axis_of(job),))
    peak = line.fold(float("-inf"), maximum, line.read)
    total = line.fold(0.0, _add, lambda at, n: call("exp_down", line.read(at, n) - peak))
    if isinstance(line.step.op, LogSoftmax):
        less = call("log", total)
        return line.finish(lambda at, n: (line.read(at, n) - peak) - less)
    return line.finish(lambda at, n: call("exp_down", line.read(at, n) - peak) / total)


@anchor(LayerNorm, RMSNorm, accepts=_accepts, fuses=("x",))
def write_norm(job: Job, limits: Limits) -> KernelSource:
    """The mean, the mean square around it, then the results."""
    first = _axis_of(job)
    assert job.anchor is not None
    line = Line(job, limits, tuple(range(first, job.anchor.outs[0].type.rank)))
    op = line.step.op
    assert isinstance(op, (LayerNorm, RMSNorm))
    mean = line.fold(0.0, _add, line.read) / line.size if isinstance(op, LayerNorm) else None

    def centred(places: list[Value], lanes: int) -> Value:
        x = line.read(places, lanes)
        return x if mean is None else x - mean

    def squared(places: list[Value], lanes: int) -> Value:
        x = centred(places, lanes)
        return x * x

    spread = call("sqrt", line.fold(0.0, _add, squared) / line.size + op.epsilon)

    def result(places: list[Value], lanes: int) -> Value:
        y = centred(places, lanes) / spread
        scale = line.beside(1, places, lanes)
        y = y if scale is None else y * scale
        bias = line.beside(2, places, lanes) if isinstance(op, LayerNorm) else None
        return y if bias is None else y + bias

    return line.finish(result)
