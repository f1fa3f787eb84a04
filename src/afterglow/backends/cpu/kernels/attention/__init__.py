"""Attention."""

from __future__ import annotations

from afterglow.backends.cpu.kernel import Kernel
from afterglow.backends.cpu.kernels.attention.blocks import write_blocks
from afterglow.backends.cpu.kernels.attention.problem import Problem, problem_of
from afterglow.backends.cpu.kernels.attention.single import write_single
from afterglow.backends.cpu.kernels.tile import sum_type
from afterglow.backends.cpu.table import kernel
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr
from afterglow.ops.attention import Attention


def _name(step: OpInstr) -> str:
    problem = problem_of(step)
    return f"attention_{problem.queries}x{problem.keys}x{problem.width}"


def _has_few_queries(problem: Problem, target: Target) -> bool:
    """Whether too few queries share a head to fill half a vector."""
    lanes = max(1, target.vector_bits // sum_type(problem.dtype).bits)
    return 2 * problem.queries < lanes


@kernel(Attention, name=_name)
def write_attention(k: Kernel) -> None:
    """Write the kernel that suits the number of queries."""
    problem = problem_of(k.step)
    if problem.keys == 0 or _has_few_queries(problem, k.target):
        write_single(k, problem)
    else:
        write_blocks(k, problem)
