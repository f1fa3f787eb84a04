"""Ops that move elements, as strided moves. Copies are transposes that keep the order."""

from __future__ import annotations

from afterglow.backends.broadcast import strides_within
from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.micro.kernel import Kernel
from afterglow.backends.cpu.micro.move import StridedMove, write_move
from afterglow.instr import OpInstr
from afterglow.ops.movement import Expand, Transpose, taken


def _name(step: OpInstr) -> str:
    """Profiles tell copies from true transposes."""
    op = step.op
    assert isinstance(op, Transpose)
    return "copy" if op.perm == tuple(range(len(op.perm))) else "transpose"


@kernel(Transpose, name=_name)
def write_transpose(k: Kernel) -> None:
    """Write a kernel that permutes axes: axis i of the result is axis perm[i] of the operand."""
    op, (x,), (out,) = k.step.op, k.step.required, k.step.outs
    assert isinstance(op, Transpose)
    move = StridedMove.of(out.type.shape, out.strides, taken(x.strides, op.perm))
    write_move(k, lambda p: p.pointer(x), move)


@kernel(Expand)
def write_expand(k: Kernel) -> None:
    """Write a kernel that broadcasts: along repeated axes the operand has stride 0."""
    (x,), (out,) = k.step.required, k.step.outs
    move = StridedMove.of(out.type.shape, out.strides, strides_within(x, out.type.shape))
    write_move(k, lambda p: p.pointer(x), move)
