"""Softmax and norms: whoever computes a line of elements goes through it a few times."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack

from afterglow.backends.broadcast import chain_strides, strides_within
from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.clc.types import is_arithmetic
from afterglow.backends.opencl.kernels.anchors import anchor
from afterglow.backends.opencl.kernels.around import read as read_operand
from afterglow.backends.opencl.kernels.around import write_result
from afterglow.backends.opencl.kernels.chain import load, places_of
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.lanes import Combine, combine_lanes, lanes_along
from afterglow.backends.opencl.kernels.team import Team
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.pointwise.vocabulary import call, maximum
from afterglow.instr import OpInstr
from afterglow.ops.normalization import LayerNorm, RMSNorm
from afterglow.ops.softmax import LogSoftmax, Softmax

ValueAt = Callable[[list[Value]], Value]


def _accepts(step: OpInstr, limits: Limits) -> bool:
    return is_arithmetic(step.outs[0].type.dtype)


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
        return lanes_along(self.kernel, self.shape[-1], [*strides.values(), *beside])

    def each(self, visit: Callable[[list[Value]], None]) -> None:
        """Write code for every place of the line, in order."""
        with ExitStack() as loops:
            inner = self.team.loops(loops, self.shape, self.axes, self.lanes)
            visit([inner.get(axis, place) for axis, place in enumerate(self.outer)])

    def read(self, places: list[Value]) -> Value:
        """The elements of x at a place."""
        value = read_operand(self.kernel, self.step.operand(0), places, self.lanes)
        return value.splat(self.lanes)

    def beside(self, index: int, places: list[Value]) -> Value | None:
        """The elements of another operand at a place, which is broadcast to x."""
        buffer = self.step.optional(index)
        if buffer is None:
            return None
        return load(self.kernel, buffer, places, strides_within(buffer, self.shape), self.lanes)

    def fold(
        self, start: float, combine: Combine, value_at: Callable[[list[Value]], Value]
    ) -> Value:
        """Combine a value of every place of the line."""
        code, dtype = self.kernel.code, self.step.outs[0].type.dtype
        total = code.variable(code.constant(dtype, start, self.lanes))
        self.each(lambda places: code.assign(total, combine(total, value_at(places))))
        return self.team.combined(combine_lanes(total, combine), combine)

    def finish(self, result_at: ValueAt) -> KernelSource:
        """Write a result for every place, and end the kernel."""
        self.each(lambda places: write_result(self.kernel, result_at(places), places, self.lanes))
        return self.kernel.finish()


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
    total = line.fold(0.0, _add, lambda at: call("exp_down", line.read(at) - peak))
    if isinstance(line.step.op, LogSoftmax):
        less = call("log", total)
        return line.finish(lambda at: (line.read(at) - peak) - less)
    return line.finish(lambda at: call("exp_down", line.read(at) - peak) / total)


@anchor(LayerNorm, RMSNorm, accepts=_accepts, fuses=("x",))
def write_norm(job: Job, limits: Limits) -> KernelSource:
    """The mean, the mean square around it, then the results."""
    first = _axis_of(job)
    assert job.anchor is not None
    line = Line(job, limits, tuple(range(first, job.anchor.outs[0].type.rank)))
    op = line.step.op
    assert isinstance(op, (LayerNorm, RMSNorm))
    mean = line.fold(0.0, _add, line.read) / line.size if isinstance(op, LayerNorm) else None

    def centred(places: list[Value]) -> Value:
        x = line.read(places)
        return x if mean is None else x - mean

    def squared(places: list[Value]) -> Value:
        x = centred(places)
        return x * x

    spread = call("sqrt", line.fold(0.0, _add, squared) / line.size + op.epsilon)

    def result(places: list[Value]) -> Value:
        y = centred(places) / spread
        scale = line.beside(1, places)
        y = y if scale is None else y * scale
        bias = line.beside(2, places) if isinstance(op, LayerNorm) else None
        return y if bias is None else y + bias

    return line.finish(result)
