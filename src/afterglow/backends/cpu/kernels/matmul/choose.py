"""The algorithms for a product: register tiles, vectors along the depth, or Strassen's."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.matmul.dot import dot_algorithm, suits_dot
from afterglow.backends.cpu.kernels.matmul.gemm import gemm_algorithms
from afterglow.backends.cpu.kernels.matmul.problem import GemmProblem, problem_of
from afterglow.backends.cpu.kernels.strassen import (
    StrassenProduct,
    plan_strassen,
    strassen_algorithm,
)
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.types.extent import dims_of


def matmul_algorithms(r: KernelRequest) -> list[Algorithm]:
    """All algorithms, the one that is fastest by an estimate first."""
    problem = problem_of(r.step)
    if suits_dot(problem, r.target):
        return [dot_algorithm(problem)]
    tiles = gemm_algorithms(r, problem)
    product = product_of(problem)
    plan = None if product is None else plan_strassen(product, r.step, r.target)
    if plan is None:
        return tiles
    strassen = strassen_algorithm(plan, tiles[0].cost * (1 - plan.gain))
    return [strassen, *tiles] if plan.pays else [*tiles, strassen]


def product_of(problem: GemmProblem) -> StrassenProduct | None:
    """A problem as a product for Strassen's algorithm, or None if it does not apply."""
    lhs = problem.lhs
    if problem.batches != 1 or lhs.column_stride != 1:
        return None
    if dims_of(problem.rows, problem.columns, problem.depth):
        return None
    return StrassenProduct(
        lhs.buffer,
        problem.rhs.buffer,
        None,
        Axes.merged((problem.rows,), (lhs.row_stride,)),
        problem.depth,
        problem.columns,
        problem.transposed_rhs,
    )
