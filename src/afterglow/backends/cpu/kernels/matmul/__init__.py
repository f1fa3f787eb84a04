"""Matrix products."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.matmul.choose import matmul_algorithms
from afterglow.backends.cpu.kernels.matmul.problem import problem_of
from afterglow.backends.cpu.kernels.table import algorithms
from afterglow.instr import OpInstr
from afterglow.ops.linear import MatMul


def _name(step: OpInstr) -> str:
    problem = problem_of(step)
    return f"matmul_{problem.rows}x{problem.depth}x{problem.columns}"


algorithms(MatMul, name=_name)(matmul_algorithms)
