"""Where the largest elements along an axis are, and what they are."""

from __future__ import annotations

import math

from afterglow.backends.items.anchors import shared
from afterglow.backends.items.around import read, write_result
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.language import Kernel, offset
from afterglow.backends.items.types import is_arithmetic
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import convert, equal, is_nan
from afterglow.instr import OpInstr
from afterglow.ops.search import ArgExtreme, ArgMax, ArgMin, TopK
from afterglow.types.dtype import i32, i64

MOST_RANKED = 4096
"""Elements of a line of which each is compared with each."""


def _accepts(step: OpInstr) -> bool:
    return is_arithmetic(step.operand(0).type.dtype)


@shared(ArgMax, ArgMin, accepts=_accepts, fuses=("x",))
def write_arg_extreme(kernel: Kernel[ValueT]) -> None:
    """Each line by an item, from its first element to its last."""
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
            code.assign(found, convert(code.number(place), i32))
    write_result(kernel, convert(found, i64), places)


def _is_ahead(symbol: str, value: ValueT, other: ValueT, *, ties: bool) -> ValueT:
    """Whether a value is beyond another, or as far if ties count; NaN is beyond all."""
    ahead = value.combined(f"{symbol}=" if ties else symbol, other)
    if not value.dtype.is_float:
        return ahead
    beyond = is_nan(value) if ties else is_nan(value).combined("&", equal(other, other))
    return ahead.combined("|", beyond)


def _is_ranked(step: OpInstr) -> bool:
    """Whether a line is short enough, and its results are to be in order."""
    assert isinstance(step.op, TopK)
    x = step.operand(0).type
    return _accepts(step) and step.op.sorted and x.shape[step.op.axis] <= MOST_RANKED


@shared(TopK, accepts=_is_ranked, fuses=("x",), epilogue=False)
def write_top_k(kernel: Kernel[ValueT]) -> None:
    """Each element by an item, which counts those that come before it."""
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
    with code.when(code.is_below(rank, op.k)):
        at = [*places[:axis], code.named(rank), *places[axis + 1 :]]
        number = convert(code.number(own), i64)
        for buffer, result in ((values, value), (indices, number)):
            if buffer.type.size:
                kernel.pointer(buffer).store(result, offset(code, at, buffer.strides))


def _comes_first(op: TopK, other: ValueT, value: ValueT, *, ties: bool) -> ValueT:
    """Whether another element comes before a value; NaN counts as the largest."""
    if op.largest:
        return _is_ahead(">", other, value, ties=ties)
    behind = _is_ahead(">", other, value, ties=not ties)
    return behind.combined("==", behind.like(0))
