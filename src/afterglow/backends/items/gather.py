"""Elements that indices name; an index out of range raises an alarm, and becomes the nearest."""

from __future__ import annotations

from afterglow.backends.items.anchors import shared
from afterglow.backends.items.around import read, write_result
from afterglow.backends.items.language import Kernel
from afterglow.backends.items.movement import begin, begin_vectors
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import clamp, convert, differ, select
from afterglow.instr import OpInstr
from afterglow.ops.indexing import Gather, GatherElements
from afterglow.types.dtype import i64, u64


def accepts_indices(step: OpInstr) -> bool:
    """Whether all indices, the second operand, are meant."""
    return accepts_index(step, 1)


def accepts_index(step: OpInstr, operand: int) -> bool:
    """Whether all indices are meant: where a predicate may be false, they may be rubbish."""
    kind = step.operand(operand).type.dtype
    return step.predicate is None and kind.is_integer and kind is not u64


def in_range(kernel: Kernel[ValueT], operand: str, number: ValueT, component: int = 0) -> ValueT:
    """A number of an operand as a count from the front, in the range that the op tells.

    Where the numbers are tuples, it is the range of one component of these.
    """
    step, code = kernel.job.anchor, kernel.code
    assert step is not None
    types = [None if b is None else b.type for b in step.ins]
    allowed = step.op.index_ranges(types)[operand][component]
    assert allowed is not None
    given = convert(number, i64)
    counted = select(given < 0, given + -allowed.low, given) if allowed.low < 0 else given
    near = clamp(counted, 0, allowed.high)
    alarm = kernel.alarm(operand, allowed)
    with code.when(differ(near, counted)):
        alarm.store(given, 1)
        alarm.store(code.constant(i64, 1), 0)
    return code.named(near)


@shared(Gather, accepts=accepts_indices)
def write_gather(kernel: Kernel[ValueT]) -> None:
    """Slices along an axis."""
    step = kernel.step
    assert isinstance(step.op, Gather)
    data, indices = step.operand(0), step.operand(1)
    first = step.op.axis % data.type.rank
    last = first + indices.type.rank
    places, lanes = begin_vectors(kernel, [data], whole=last < step.outs[0].type.rank)
    index = in_range(kernel, "indices", read(kernel, indices, places[first:last]))
    value = read(kernel, data, [*places[:first], index, *places[last:]], lanes)
    write_result(kernel, value, places, lanes)


@shared(GatherElements, accepts=accepts_indices)
def write_gather_elements(kernel: Kernel[ValueT]) -> None:
    """An index for each result, along one axis."""
    step = kernel.step
    assert isinstance(step.op, GatherElements)
    data, indices = step.operand(0), step.operand(1)
    axis = step.op.axis % data.type.rank
    places = begin(kernel, step)
    index = in_range(kernel, "indices", read(kernel, indices, places))
    write_result(kernel, read(kernel, data, [*places[:axis], index, *places[axis + 1 :]]), places)
