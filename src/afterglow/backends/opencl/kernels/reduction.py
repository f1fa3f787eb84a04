"""Reductions: a work-item for each result, which goes through the elements in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.clc.types import is_arithmetic
from afterglow.backends.opencl.kernels.anchors import anchor
from afterglow.backends.opencl.kernels.around import read, write_result
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.movement import begin
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.pointwise.vocabulary import maximum, minimum
from afterglow.graph import Op
from afterglow.instr import OpInstr
from afterglow.ops.reduction import ReduceMax, ReduceMin, ReduceProd, ReduceSum
from afterglow.types.dtype import DType

_COMBINE: dict[type[Op], Callable[[Value, Value], Value]] = {
    ReduceSum: lambda total, x: total + x,
    ReduceProd: lambda total, x: total * x,
    ReduceMax: maximum,
    ReduceMin: minimum,
}


def start_of(op: type[Op], dtype: DType) -> float:
    """What a reduction gives of nothing."""
    if op in (ReduceSum, ReduceProd):
        return 0 if op is ReduceSum else 1
    if dtype.is_float:
        return float("-inf") if op is ReduceMax else float("inf")
    return dtype.limits[0 if op is ReduceMax else 1]


def _accepts(step: OpInstr, limits: Limits) -> bool:
    return is_arithmetic(step.outs[0].type.dtype)


@anchor(*_COMBINE, accepts=_accepts, fuses=("x",))
def write_reduction(job: Job, limits: Limits) -> KernelSource:
    """One result after the other along the reduced axes."""
    kernel = Kernel(job, limits)
    step = kernel.step
    kind, dtype = type(step.op), step.outs[0].type.dtype
    places = begin(kernel, step)
    x = step.operand(0)
    axes = sorted(axis % x.type.rank for axis in getattr(step.op, "axes", ()))
    total = kernel.code.variable(kernel.code.constant(dtype, start_of(kind, dtype)))
    with ExitStack() as loops:
        inner = {axis: loops.enter_context(kernel.code.loop(x.type.shape[axis])) for axis in axes}
        where = _source(places, inner, x.type.rank, keeps=step.outs[0].type.rank == x.type.rank)
        kernel.code.assign(total, _COMBINE[kind](total, read(kernel, x, where)))
    write_result(kernel, total, places)
    return kernel.finish()


def _source(
    places: Sequence[Value], inner: dict[int, Value], rank: int, *, keeps: bool
) -> list[Value]:
    """Where an element is that a result is made of."""
    if keeps:
        return [inner.get(axis, places[axis]) for axis in range(rank)]
    outer = iter(places)
    return [inner[axis] if axis in inner else next(outer) for axis in range(rank)]
