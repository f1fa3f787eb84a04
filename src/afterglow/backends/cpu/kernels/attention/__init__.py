"""Attention, and its gradient."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.attention.gradient_versions import gradient_algorithms
from afterglow.backends.cpu.kernels.attention.problem import problem_of
from afterglow.backends.cpu.kernels.attention.versions import attention_algorithm
from afterglow.backends.cpu.kernels.table import algorithms
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.instr import OpInstr
from afterglow.ops.attention import Attention
from afterglow.ops.attention_gradient import AttentionGradient
from afterglow.types.extent import largest


def _name(step: OpInstr) -> str:
    problem = problem_of(step)
    extents = (problem.queries, problem.keys, problem.width)
    return f"{step.op.mnemonic}_" + "x".join(str(largest(extent)) for extent in extents)


@algorithms(Attention, name=_name)
def attention(r: KernelRequest) -> list[Algorithm]:
    """The algorithm that suits the number of queries; of a ranged number, the code chooses."""
    return [attention_algorithm(problem_of(r.step), r.target)]


@algorithms(AttentionGradient, name=_name, epilogue=False, exact=("q", "k"))
def attention_gradient(r: KernelRequest) -> list[Algorithm]:
    """By heads of keys, or by blocks of queries and of keys."""
    return gradient_algorithms(r.step, r.target)
