"""Rotary position embedding: pairs of elements of heads, turned."""

from __future__ import annotations

from afterglow.backends.broadcast import strides_within
from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.types import is_number
from afterglow.backends.items.around import read_number, write_result
from afterglow.backends.items.chain import load, places_of
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import select
from afterglow.instr import OpInstr
from afterglow.ops.rotary import Rotary


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    return is_number(step.outs[0].type.dtype)


@ANCHORS.declare(Rotary, accepts=_accepts, fuses=("x",))
def write_rotary(job: Job, target: CudaTarget) -> KernelSource:
    """An item for each element: it reads that and the other one of its pair."""
    kernel = Kernel(job, target)
    step, code = kernel.step, kernel.code
    assert isinstance(step.op, Rotary)
    x, cosines, sines = (step.operand(i) for i in range(3))
    pairs, width = cosines.type.shape[1], x.type.shape[2]
    item = kernel.each(x.type.size)
    token, head, place = places_of(kernel, item, x.type.shape)
    if step.op.interleaved:
        pair, second = code.named(place.combined("/", 2)), place.combined("%", 2)
        is_first = second.combined("==", 0)
        partner = (place + 1) - second * 2
    else:
        is_first = place < pairs
        partner = _chosen(kernel, is_first, place + pairs, place - pairs)
        pair = _chosen(kernel, is_first, place, place - pairs)
    own = read_number(kernel, x, [token, head, place])
    is_turned = place < 2 * pairs
    with code.when(is_turned):
        other = read_number(kernel, x, [token, head, code.named(partner)])
        cos, sin = (
            load(kernel, each, [token, pair], strides_within(each, each.type.shape))
            for each in (cosines, sines)
        )
    turned = own * cos + select(is_first, -other, other) * sin
    result = turned if 2 * pairs == width else select(is_turned, turned, own)
    write_result(kernel, result, [token, head, place])
    return kernel.finish()


def _chosen(kernel: Kernel, condition: Value, then: Value, otherwise: Value) -> Value:
    """One of two indices."""
    text = f"tl.where({condition.text}, {then.text}, {otherwise.text})"
    return kernel.code.as_index(kernel.code.define(text, then.dtype, condition.shape))
