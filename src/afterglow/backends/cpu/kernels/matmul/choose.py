"""The algorithms for a product: register tiles, vectors along the depth, or Strassen's."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm, with_few
from afterglow.backends.cpu.kernels.matmul.dot import (
    dot_algorithm,
    has_few_rows,
    ranged_dot,
    suits_dot,
    suits_ranged_dot,
)
from afterglow.backends.cpu.kernels.matmul.gemm import few_rows, gemm_algorithms
from afterglow.backends.cpu.kernels.matmul.problem import GemmProblem, problem_of
from afterglow.backends.cpu.kernels.strassen import (
    StrassenPlan,
    StrassenProduct,
    plan_ranged_strassen,
    plan_strassen,
    strassen_algorithm,
)
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.types.extent import dims_of, is_ranged


def matmul_algorithms(r: KernelRequest) -> list[Algorithm]:
    """All algorithms, the one that is fastest by an estimate first."""
    problem = problem_of(r.step)
    if suits_dot(problem, r.target):
        return [dot_algorithm(problem)]
    if suits_ranged_dot(problem, r.target):
        return _few_by_dots(r, problem)
    tiles = gemm_algorithms(r, problem)
    product = product_of(problem)
    if product is None:
        return tiles
    if is_ranged(problem.rows):
        plan = plan_ranged_strassen(product, r.step, r.target)
        return tiles if plan is None else [_by_rows(r, problem, plan, tiles[0].cost), *tiles]
    plan = plan_strassen(product, r.step, r.target)
    if plan is None:
        return tiles
    strassen = strassen_algorithm(plan, tiles[0].cost)
    return [strassen, *tiles] if plan.pays else [*tiles, strassen]


def _by_rows(r: KernelRequest, problem: GemmProblem, plan: StrassenPlan, cost: float) -> Algorithm:
    """Strassen's algorithm where there are many rows, and register tiles where there are few."""
    many = strassen_algorithm(plan, cost)
    if plan.used == 1:  # there are never few
        return many
    return with_few(many, few_rows(r, problem, plan))


def _few_by_dots(r: KernelRequest, problem: GemmProblem) -> list[Algorithm]:
    """Vectors along the depth where there are few rows, and register tiles where there are more."""
    few, used = ranged_dot(problem), has_few_rows(problem)
    if not is_ranged(used):
        return [few]
    return [with_few(many, few) for many in gemm_algorithms(r, problem, 1 - used)]


def product_of(problem: GemmProblem) -> StrassenProduct | None:
    """A problem as a product for Strassen's algorithm, or None if it does not apply."""
    lhs = problem.lhs
    if problem.batches != 1 or lhs.column_stride != 1:
        return None
    if dims_of(problem.columns, problem.depth):
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
