"""Running sums and products: each line by an item, or neighbouring lines in a vector."""

from __future__ import annotations

import math

from afterglow.backends.broadcast import chain_strides
from afterglow.backends.items.anchors import shared
from afterglow.backends.items.around import read_number, write_result
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.lanes import lanes_along
from afterglow.backends.items.language import Kernel
from afterglow.backends.items.types import computed, is_number
from afterglow.backends.pointwise.value import ValueT
from afterglow.instr import OpInstr
from afterglow.ops.reduction import CumProd, CumSum, Running


def _accepts(step: OpInstr) -> bool:
    return is_number(step.outs[0].type.dtype)


@shared(CumSum, CumProd, accepts=_accepts)
def write_running(kernel: Kernel[ValueT]) -> None:
    """What was combined so far is in a register."""
    step, code = kernel.step, kernel.code
    assert isinstance(step.op, Running)
    op, x, shape = step.op, step.operand(0), step.outs[0].type.shape
    axis, is_sum = op.axis % len(shape), isinstance(op, CumSum)
    lanes = 1 if axis == len(shape) - 1 else _lanes(kernel)
    lines = [*shape[:-1], shape[-1] // lanes]
    extent, lines[axis] = shape[axis], 1
    places = places_of(kernel, kernel.each(math.prod(lines)), lines)
    places[-1] = code.named(places[-1] * lanes)
    total = code.variable(code.constant(computed(x.type.dtype), 0 if is_sum else 1, lanes))
    with code.loop(extent) as number:
        places[axis] = code.named(number * -1 + (extent - 1)) if op.reverse else number
        value = read_number(kernel, x, places, lanes)
        combined = total + value if is_sum else total * value
        write_result(kernel, total if op.exclusive else combined, places, lanes)
        code.assign(total, combined)


def _lanes(kernel: Kernel[ValueT]) -> int:
    """Neighbouring lines that are read and written together."""
    out, x = kernel.step.outs[0], kernel.step.operand(0)
    after = chain_strides(kernel.job.after, out.type.shape).values()
    return lanes_along(kernel, out.type.shape[-1], [out.strides, x.strides, *after])
