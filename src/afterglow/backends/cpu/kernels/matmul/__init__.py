"""Matrix products."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm, by_cost
from afterglow.backends.cpu.kernels.bf16_products import bf16_algorithms
from afterglow.backends.cpu.kernels.matmul.choose import matmul_algorithms
from afterglow.backends.cpu.kernels.matmul.problem import problem_of
from afterglow.backends.cpu.kernels.table import algorithms
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.instr import OpInstr
from afterglow.ops.linear import MatMul


def _name(step: OpInstr) -> str:
    problem = problem_of(step)
    return f"matmul_{problem.rows}x{problem.depth}x{problem.columns}"


@algorithms(MatMul, name=_name)
def algorithms_of(r: KernelRequest) -> list[Algorithm]:
    """All algorithms for a product."""
    return by_cost(bf16_algorithms(r), matmul_algorithms(r))
