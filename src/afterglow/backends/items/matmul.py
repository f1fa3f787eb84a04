"""Matrix products in which each result is computed by an item of its own."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.items.anchors import shared
from afterglow.backends.items.around import read_number, write_result
from afterglow.backends.items.language import Kernel
from afterglow.backends.items.movement import begin
from afterglow.backends.items.types import computed, is_number
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import Buffer, OpInstr
from afterglow.ops.linear import MatMul


def _accepts(step: OpInstr) -> bool:
    return is_number(step.outs[0].type.dtype)


@shared(MatMul, accepts=_accepts)
def write_matmul(kernel: Kernel[ValueT]) -> None:
    """The sum of the products of a row and a column."""
    step = kernel.step
    assert isinstance(step.op, MatMul)
    lhs, rhs, out = step.operand(0), step.operand(1), step.outs[0]
    *where, m, n = begin(kernel, step)
    dtype = computed(out.type.dtype)
    total = kernel.code.variable(kernel.code.constant(dtype, 0))
    inner = lhs.type.shape[-2 if step.op.transpose_lhs else -1]
    with kernel.code.loop(inner) as k:
        left = [k, m] if step.op.transpose_lhs else [m, k]
        right = [n, k] if step.op.transpose_rhs else [k, n]
        x = read_number(kernel, lhs, [*within_batch(lhs, where), *left])
        y = convert(read_number(kernel, rhs, [*within_batch(rhs, where), *right]), dtype)
        kernel.code.assign(total, total + x * y)
    write_result(kernel, total, [*where, m, n])


def within_batch(operand: Buffer, where: Sequence[ValueT]) -> list[ValueT]:
    """The place in the batch axes of an operand that is broadcast to the result's."""
    batch = operand.type.shape[:-2]
    own = where[len(where) - len(batch) :]
    return [p if n != 1 else p.like(0) for p, n in zip(own, batch, strict=True)]
