"""Floating-point operations of a program: two for each multiplication of a matrix product."""

from __future__ import annotations

from afterglow.instr import Access, Instr, OpInstr, Program, ops_of
from afterglow.ops.attention import Attention
from afterglow.ops.attention_gradient import AttentionGradient
from afterglow.ops.convolution import Conv, ConvTranspose, ConvWeightGradient
from afterglow.ops.linear import MatMul
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.ops.recurrent import Recurrent
from afterglow.ops.stored import StoredMatMul

PRODUCTS = (
    Attention,
    AttentionGradient,
    Conv,
    ConvTranspose,
    ConvWeightGradient,
    MatMul,
    QuantizedConv,
    QuantizedMatMul,
    Recurrent,
    StoredMatMul,
)
"""The ops whose multiplications are counted, whatever algorithm their kernel uses."""


def program_flops(program: Program) -> float:
    """The operations of one run; the body of a loop counts once."""
    return sum(map(step_flops, program.body))


def step_flops(step: Instr) -> float:
    """The operations of one instruction."""
    return sum(2.0 * _multiplications(op) for op in ops_of(step))


def step_bytes(step: Instr) -> int:
    """The bytes that an instruction reads and writes, each buffer counted once."""
    used = {buffer for access, buffer in step.accesses() if access is not Access.SCRATCH}
    return sum(buffer.type.nbytes for buffer in used)


def _multiplications(step: OpInstr) -> int:
    if not isinstance(step.op, PRODUCTS):
        return 0
    operands = [None if buffer is None else buffer.type for buffer in step.ins]
    return step.op.work(step.outs[0].type, operands)
