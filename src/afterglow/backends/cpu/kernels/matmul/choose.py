"""Which way a product is computed: by tiles, along vectors of the depth, or by Strassen's way."""

from __future__ import annotations

from afterglow.backends.cpu.candidate import Candidate
from afterglow.backends.cpu.kernel import Kernel
from afterglow.backends.cpu.kernels.matmul.dot import suits_dot
from afterglow.backends.cpu.kernels.matmul.plan import tile_candidates
from afterglow.backends.cpu.kernels.matmul.problem import Problem, problem_of
from afterglow.backends.cpu.kernels.strassen import (
    STRASSEN,
    Product,
    StrassenPlan,
    plan_strassen,
)
from afterglow.backends.cpu.rows import Axes
from afterglow.backends.cpu.target import Target
from afterglow.backends.policy import Policy
from afterglow.instr import OpInstr


def candidates_of(step: OpInstr, target: Target, policy: Policy) -> list[Candidate]:
    """All ways, the one that is fastest by an estimate first."""
    problem = problem_of(step)
    if suits_dot(problem, target):
        return [Candidate("dot products", problem.work)]
    tiles = tile_candidates(problem, target)
    plan = _plan(problem, step, target, policy)
    if plan is None:
        return tiles
    strassen = Candidate(STRASSEN, tiles[0].cost * (1 - plan.gain))
    return [strassen, *tiles] if plan.pays else [*tiles, strassen]


def choose_strassen(k: Kernel, problem: Problem) -> StrassenPlan | None:
    """The plan of Strassen's way, if that is picked, or fastest by an estimate."""
    ways = candidates_of(k.step, k.target, k.policy)
    chosen = next((way for way in ways if way.name == k.pick), ways[0])
    return _plan(problem, k.step, k.target, k.policy) if chosen.name == STRASSEN else None


def product_of(problem: Problem) -> Product | None:
    """A problem as Strassen's algorithm sees it, if it can."""
    lhs = problem.lhs
    if problem.batches != 1 or lhs.column_stride != 1:
        return None
    return Product(
        lhs.buffer,
        problem.rhs.buffer,
        None,
        Axes.merged((problem.rows,), (lhs.row_stride,)),
        problem.depth,
        problem.columns,
        problem.transposed_rhs,
    )


def _plan(problem: Problem, step: OpInstr, target: Target, policy: Policy) -> StrassenPlan | None:
    product = product_of(problem)
    return None if product is None else plan_strassen(product, step, target, policy)
