"""Where the largest elements along an axis are, and what they are."""

from __future__ import annotations

import math

from afterglow.backends.job import Job
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.clc.code import offset
from afterglow.backends.opencl.clc.types import is_arithmetic
from afterglow.backends.opencl.kernels.anchors import anchor
from afterglow.backends.opencl.kernels.around import read, write_result
from afterglow.backends.opencl.kernels.chain import places_of
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.pointwise.vocabulary import convert, equal, is_nan
from afterglow.instr import OpInstr
from afterglow.ops.search import ArgExtreme, ArgMax, ArgMin, TopK
from afterglow.types.dtype import i32, i64

MOST_RANKED = 4096
"""Elements of a line of which each is compared with each."""


def _accepts(step: OpInstr, limits: Limits) -> bool:
    return is_arithmetic(step.operand(0).type.dtype)


@anchor(ArgMax, ArgMin, accepts=_accepts, fuses=("x",))
def write_arg_extreme(job: Job, limits: Limits) -> KernelSource:
    """Each line by an item, from its first element to its last."""
    kernel = Kernel(job, limits)
    step, code = kernel.step, kernel.code
    assert isinstance(step.op, ArgExtreme)
    x, out = step.operand(0), step.outs[0].type
    axis = step.op.axis % x.type.rank
    places = places_of(kernel, kernel.each(out.size), out.shape)
    before, after = places[:axis], places[axis + 1 if step.op.keepdims else axis :]
    best = code.variable(read(kernel, x, [*before, code.index(0), *after]))
    found = code.variable(code.constant(i32, 0))
    with code.loop(x.type.shape[axis], 1) as place:
        value = read(kernel, x, [*before, place, *after])
        symbol = ">" if isinstance(step.op, ArgMax) else "<"
        with code.when(_is_ahead(symbol, value, best, ties=step.op.last_index)):
            code.assign(best, value)
            code.perform(f"{found.text} = (int){place.text};")
    write_result(kernel, convert(found, i64), places)
    return kernel.finish()


def _is_ahead(symbol: str, value: Value, other: Value, *, ties: bool) -> Value:
    """Whether a value is beyond another, or as far if ties count; NaN is beyond all."""
    ahead = value.combined(f"{symbol}=" if ties else symbol, other)
    if not value.dtype.is_float:
        return ahead
    beyond = is_nan(value) if ties else is_nan(value).combined("&", equal(other, other))
    return ahead.combined("|", beyond)


def _is_ranked(step: OpInstr, limits: Limits) -> bool:
    """Whether a line is short enough, and its results are to be in order."""
    assert isinstance(step.op, TopK)
    x = step.operand(0).type
    return _accepts(step, limits) and step.op.sorted and x.shape[step.op.axis] <= MOST_RANKED


@anchor(TopK, accepts=_is_ranked, fuses=("x",), epilogue=False)
def write_top_k(job: Job, limits: Limits) -> KernelSource:
    """Each element by an item, which counts those that come before it."""
    kernel = Kernel(job, limits)
    step, code = kernel.step, kernel.code
    assert isinstance(step.op, TopK)
    x, op = step.operand(0), step.op
    axis = op.axis % x.type.rank
    places = places_of(kernel, kernel.each(math.prod(x.type.shape)), x.type.shape)
    own, value = places[axis], read(kernel, x, places)
    rank = code.variable(code.constant(i32, 0))
    for start, end, ties in ((0, own, True), (own + 1, x.type.shape[axis], False)):
        with code.loop(end, start) as place:
            other = read(kernel, x, [*places[:axis], place, *places[axis + 1 :]])
            ahead = _comes_first(op, other, value, ties=ties)
            code.assign(rank, rank + convert(ahead, i32))
    values, indices = step.outs
    with code.block(f"if ({rank.text} < {op.k})"):
        at = [*places[:axis], code.named(rank), *places[axis + 1 :]]
        number = convert(code.define(own.text, own.dtype), i64)
        for buffer, result in ((values, value), (indices, number)):
            if buffer.type.size:
                kernel.pointer(buffer).store(result, offset(code, at, buffer.strides))
    return kernel.finish()


def _comes_first(op: TopK, other: Value, value: Value, *, ties: bool) -> Value:
    """Whether another element comes before a value; NaN counts as the largest."""
    if op.largest:
        return _is_ahead(">", other, value, ties=ties)
    behind = _is_ahead(">", other, value, ties=not ties)
    return behind.combined("==", behind.like(0))
