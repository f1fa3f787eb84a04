"""Norms of lines: layer norm, RMS norm, and norms of groups of channels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afterglow.backends.broadcast import Strides
from afterglow.backends.cuda.kernels.folds import SUM
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.lines import Lines, LineTiling, Places, anchor_of, space_of
from afterglow.backends.cuda.kernels.softmax import line_plans
from afterglow.backends.cuda.kernels.space import Space
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.types import is_number
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import call
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.normalization import GroupNorm, LayerNorm, RMSNorm, TrailingNorm

_LONGEST_GROUP = 65536
"""Elements of a group that one program goes through, unless there are many groups."""


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    if not is_number(step.outs[0].type.dtype):
        return False
    if not isinstance(step.op, GroupNorm):
        return True
    shape = step.outs[0].type.shape
    groups = shape[0] * step.op.groups
    return math.prod(shape) // max(1, groups) <= _LONGEST_GROUP or groups >= target.units


def _space(job: Job) -> Space:
    step = anchor_of(job)
    op, rank = step.op, step.outs[0].type.rank
    if isinstance(op, TrailingNorm):
        return space_of(job, range(op.axis % rank, rank))
    assert isinstance(op, GroupNorm)
    channels, groups = op.axis % rank, op.groups
    width = step.outs[0].type.shape[channels] // groups

    def split(strides: Strides) -> Strides:
        """With an axis of groups before that of channels."""
        step = strides[channels]
        return (*strides[:channels], step * width, step, *strides[channels + 1 :])

    shape = step.outs[0].type.shape
    extents = (*shape[:channels], groups, width, *shape[channels + 1 :])
    along = [axis for axis in range(1, rank + 1) if axis != channels]
    return space_of(job, along, split, extents)


def _plans(job: Job, target: CudaTarget) -> Sequence[KernelPlan]:
    return line_plans(job, target, _space(job), 3)


@ANCHORS.declare(LayerNorm, RMSNorm, GroupNorm, accepts=_accepts, fuses=("x",), plans=_plans)
def write_norm(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """The mean, the mean square around it, then the results."""
    kernel = Kernel(job, target)
    lines = Lines(kernel, _space(job), LineTiling.in_plan(plan))
    norm = _Norm(lines)
    lines.finish(norm.result)
    return kernel.finish()


class _Norm:
    """What is known of the lines of a program, and the results."""

    def __init__(self, lines: Lines) -> None:
        op = lines.step.op
        assert isinstance(op, (TrailingNorm, GroupNorm))
        self.lines, self.op = lines, op
        self.size = lines.space.size
        self.mean: Value | None = None
        self._kept: Value | None = None
        self._parameters: tuple[Value | None, Value | None] | None = None
        if lines.is_whole:
            # all that is read is on its way before the first sum is waited for
            with lines.elements() as places:
                self._parameters = self._read_parameters(places)  # of constants: it waits for none
                lines.read(places)
        if not isinstance(op, RMSNorm):
            self.mean = lines.fold(SUM, lines.read) / self.size
        square = lines.fold(SUM, self._squared) / self.size
        self.factor = 1 / call("sqrt", square + op.epsilon)
        if lines.is_whole:
            lines.kernel.release_dependents()

    def _centred(self, places: Places) -> Value:
        if self._kept is not None:
            return self._kept
        x = self.lines.read(places)
        centred = x if self.mean is None else x - self.mean
        if self.lines.is_whole:
            self._kept = centred
        return centred

    def _squared(self, places: Places) -> Value:
        x = self._centred(places)
        return x * x

    def result(self, places: Places) -> Value:
        """The elements at a place, scaled and shifted."""
        y = self._centred(places) * self.factor
        scale, bias = self._parameters or self._read_parameters(places)
        y = y if scale is None else y * scale
        return y if bias is None else y + bias

    def _read_parameters(self, places: Places) -> tuple[Value | None, Value | None]:
        """The scale and the bias."""
        axis = self.op.axis if isinstance(self.op, GroupNorm) else None
        bias = None if isinstance(self.op, RMSNorm) else self.lines.beside(2, places, axis)
        return self.lines.beside(1, places, axis), bias
