"""Attention."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.attention.blocks import blocks_algorithm
from afterglow.backends.cpu.kernels.attention.problem import AttentionProblem, problem_of
from afterglow.backends.cpu.kernels.attention.single import single_algorithm
from afterglow.backends.cpu.kernels.table import algorithms
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.backends.cpu.micro.tile import sum_type
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr
from afterglow.ops.attention import Attention


def _name(step: OpInstr) -> str:
    problem = problem_of(step)
    return f"attention_{problem.queries}x{problem.keys}x{problem.width}"


def _has_few_queries(problem: AttentionProblem, target: Target) -> bool:
    """Whether too few queries share a head to fill half a vector."""
    lanes = max(1, target.vector_bits // sum_type(problem.dtype).bits)
    return 2 * problem.queries < lanes


@algorithms(Attention, name=_name)
def attention(r: KernelRequest) -> list[Algorithm]:
    """The algorithm that suits the number of queries."""
    problem = problem_of(r.step)
    few = problem.keys == 0 or _has_few_queries(problem, r.target)
    return [(single_algorithm if few else blocks_algorithm)(problem, r.target)]
