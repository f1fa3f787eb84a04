"""Matrix products."""

from __future__ import annotations

from afterglow.backends.cpu.kernel import Kernel
from afterglow.backends.cpu.kernels.matmul.choose import candidates_of, choose_strassen
from afterglow.backends.cpu.kernels.matmul.dot import suits_dot, write_dot
from afterglow.backends.cpu.kernels.matmul.gemm import write_gemm
from afterglow.backends.cpu.kernels.matmul.problem import problem_of
from afterglow.backends.cpu.kernels.strassen import write_strassen
from afterglow.backends.cpu.table import kernel
from afterglow.instr import OpInstr
from afterglow.ops.linear import MatMul


def _name(step: OpInstr) -> str:
    problem = problem_of(step)
    return f"matmul_{problem.rows}x{problem.depth}x{problem.columns}"


@kernel(MatMul, name=_name, candidates=candidates_of)
def write_matmul(k: Kernel) -> None:
    """Write the kernel that suits the shapes of a product."""
    problem = problem_of(k.step)
    if suits_dot(problem, k.target):
        write_dot(k, problem)
        return
    plan = choose_strassen(k, problem)
    if plan is None:
        write_gemm(k, problem)
    else:
        write_strassen(k, plan)
