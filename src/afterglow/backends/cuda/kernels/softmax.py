"""Softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cuda.kernels.costs import moving_cost
from afterglow.backends.cuda.kernels.folds import LARGEST, SUM, peak_of
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.lines import Lines, LineTiling, Places, anchor_of, space_of
from afterglow.backends.cuda.kernels.space import Space
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.types import is_number
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import call, equal, maximum, select
from afterglow.instr import KernelPlan, OpInstr
from afterglow.ops.softmax import AlongAxis, LogSoftmax, Softmax

LINES = "lines"
"""The algorithm: a program for some lines."""


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    return is_number(step.outs[0].type.dtype)


def _space(job: Job) -> Space:
    step = anchor_of(job)
    assert isinstance(step.op, AlongAxis)
    return space_of(job, [step.op.axis % step.outs[0].type.rank])


def line_plans(job: Job, target: CudaTarget, space: Space, passes: int) -> list[KernelPlan]:
    """The usual tiling, and others that might be faster; long lines are read several times."""
    usual = LineTiling.of(space, target)
    tilings = [usual]
    for lines, warps in ((1, 1), (1, 2), (2, 1), (1, 0.5)):
        other = usual.changed(lines, warps)
        if other is not None:
            tilings.append(other)
    read = 1 if usual.block >= space.size else passes
    programs = -(-space.count // usual.lines)
    cost = moving_cost(job, target, programs, read)
    return [
        KernelPlan(LINES, tiling.settings, cost * (1 + number / 100))
        for number, tiling in enumerate(dict.fromkeys(tilings))
    ]


def _plans(job: Job, target: CudaTarget) -> Sequence[KernelPlan]:
    return line_plans(job, target, _space(job), 2)


@ANCHORS.declare(Softmax, LogSoftmax, accepts=_accepts, fuses=("x",), plans=_plans)
def write_softmax(job: Job, target: CudaTarget, plan: KernelPlan) -> KernelSource:
    """The largest, the sum of exponentials below it, then the results."""
    kernel = Kernel(job, target)
    lines = Lines(kernel, _space(job), LineTiling.in_plan(plan))
    if lines.is_whole:
        _write_whole(lines)
    else:
        _write_blocks(lines)
    return kernel.finish()


def _write_whole(lines: Lines) -> None:
    """A line that is kept: each exponential is computed once."""
    with lines.elements() as places:
        x = lines.filled(lines.read(places), LARGEST)
        lines.kernel.release_dependents()
        shifted = x - peak_of(x)
        e = call("exp_down", shifted)
        total = SUM.within(e)
        if isinstance(lines.step.op, LogSoftmax):
            lines.write(shifted - call("log", total), places)
        else:
            lines.write(e * (1 / total), places)


def _write_blocks(lines: Lines) -> None:
    """A long line: each place of a block has a largest and a sum of its own at first."""
    code = lines.code
    peak, total = lines.total(LARGEST), lines.total(SUM)
    with lines.elements() as places:
        x = lines.read(places)
        highest = maximum(peak, x)
        base = _finite(highest)
        added = call("exp_down", peak - base) * total + call("exp_down", x - base)
        code.assign(total, added)
        code.assign(peak, highest)
    top = LARGEST.within(peak)
    found = SUM.within(call("exp_down", peak - _finite(top)) * total)
    if isinstance(lines.step.op, LogSoftmax):
        less = call("log", found)
        lines.finish(lambda at: (lines.read(at) - top) - less)
    else:
        inverse = 1 / found
        lines.finish(lambda at: _weight(lines, at, top) * inverse)


def _weight(lines: Lines, places: Places, peak: Value) -> Value:
    return call("exp_down", lines.read(places) - peak)


def _finite(peak: Value) -> Value:
    """What can be subtracted: 0 in the place of -infinity, below which there is nothing."""
    return select(equal(peak, float("-inf")), 0.0, peak)
