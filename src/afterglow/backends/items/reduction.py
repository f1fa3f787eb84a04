"""Reductions: sums, products, largest and least elements along some axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from afterglow.backends.broadcast import chain_strides
from afterglow.backends.items.anchors import shared
from afterglow.backends.items.around import read_number, write_result
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.lanes import combine_lanes, lanes_along
from afterglow.backends.items.language import Combine, Kernel, Team
from afterglow.backends.items.types import computed, is_number
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import maximum, minimum
from afterglow.graph import Op
from afterglow.instr import OpInstr
from afterglow.ops.reduction import ReduceMax, ReduceMin, ReduceProd, ReduceSum, Reduction
from afterglow.types.dtype import DType

_COMBINE: dict[type[Op], Combine[Any]] = {
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


def _accepts(step: OpInstr) -> bool:
    return is_number(step.outs[0].type.dtype)


@shared(*_COMBINE, accepts=_accepts, fuses=("x",))
def write_reduction(kernel: Kernel[ValueT]) -> None:
    """Vectors of neighbouring results, or of the elements of one."""
    step = kernel.step
    assert isinstance(step.op, Reduction)
    x, out, combine = step.operand(0).type, step.outs[0].type, _COMBINE[type(step.op)]
    axes = sorted(axis % x.rank for axis in step.op.axes)
    keeps_last = x.rank > 0 and x.rank - 1 not in axes
    lanes = _lanes(kernel, keeps_last=keeps_last)
    team, places = _begin(kernel, axes, lanes, keeps_last=keeps_last)
    dtype = computed(out.dtype)
    start = kernel.code.constant(dtype, start_of(type(step.op), dtype), lanes)
    total = kernel.code.variable(start)
    with ExitStack() as loops:
        inner = team.loops(loops, x.shape, axes, 1 if keeps_last else lanes)
        where = _source(places, inner, x.rank, keeps=out.rank == x.rank)
        value = read_number(kernel, step.operand(0), where, lanes).splat(lanes)
        kernel.code.assign(total, combine(total, value))
    found = team.combined(
        total if keeps_last else combine_lanes(kernel.code, total, combine), combine
    )
    with team.once():
        write_result(kernel, found, places, found.lanes)


def _lanes(kernel: Kernel[ValueT], *, keeps_last: bool) -> int:
    """Neighbouring elements, of one result or of several, that are read together."""
    job, step = kernel.job, kernel.step
    x, out = step.operand(0), step.outs[0]
    if not x.type.rank:
        return 1
    strides = [x.strides, *chain_strides(job.before, x.type.shape).values()]
    if keeps_last:
        strides += [out.strides, *chain_strides(job.after, out.type.shape).values()]
    return lanes_along(kernel, x.type.shape[-1], strides)


def _begin(
    kernel: Kernel[ValueT], axes: Sequence[int], lanes: int, *, keeps_last: bool
) -> tuple[Team[ValueT], list[ValueT]]:
    """Who computes a result, or `lanes` of them, and its place."""
    x, shape = kernel.step.operand(0).type, kernel.step.outs[0].type.shape
    elements = math.prod(x.shape[axis] for axis in axes)
    if not keeps_last:
        team = kernel.team(math.prod(shape), elements // lanes)
        return team, places_of(kernel, team.result, shape)
    wide = (*shape[:-1], shape[-1] // lanes)
    team = kernel.team(math.prod(wide), elements)
    *outer, vector = places_of(kernel, team.result, wide)
    return team, [*outer, kernel.code.named(vector * lanes)]


def _source(
    places: Sequence[ValueT], inner: dict[int, ValueT], rank: int, *, keeps: bool
) -> list[ValueT]:
    """Where an element is that a result is made of."""
    if keeps:
        return [inner.get(axis, places[axis]) for axis in range(rank)]
    outer = iter(places)
    return [inner[axis] if axis in inner else next(outer) for axis in range(rank)]
