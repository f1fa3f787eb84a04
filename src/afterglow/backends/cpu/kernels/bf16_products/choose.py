"""The algorithms for products of bf16 on machines that multiply pairs of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.bf16_products.dots import PAIR, Bf16Dots
from afterglow.backends.cpu.kernels.quantized.plan import best_plan
from afterglow.backends.cpu.kernels.quantized.problem import (
    QuantizedProblem,
    operands,
    problem_of_matrices,
    problem_of_windows,
    reading_of_windows,
    weight_of_windows,
)
from afterglow.backends.cpu.kernels.quantized.product import register_algorithm
from afterglow.backends.cpu.kernels.quantized.tiles import tiles_for
from afterglow.backends.cpu.kernels.quantized.weights import BytePanels
from afterglow.backends.cpu.micro.cost import COPIED_BYTE, PACKED_ELEMENT, memory_bound
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.types.dtype import bf16
from afterglow.types.extent import is_ranged, largest

PAIRS = "bf16-pairs"
"""The algorithm by vectors; the one by tiles is called as that of bytes is."""
LEAST_ROWS = 8
"""Rows from which multiplications take the time, rather than reading the weights."""


def bf16_algorithms(r: KernelRequest) -> list[Algorithm]:
    """The algorithms of a convolution or a matrix product; none if it is not one of bf16."""
    if not r.target.dot_bf16 or any(x.type.dtype is not bf16 for x in operands(r.step)):
        return []
    if any(map(is_ranged, operands(r.step)[1].type.shape)):
        return []
    problem = problem_of(r.step)
    if largest(problem.rows) < LEAST_ROWS or not _packs_fast(problem):
        return []
    priced = [
        replace(algorithm, cost=_cost(algorithm, problem))
        for algorithm in _unpriced(problem, r.target)
    ]
    return sorted(priced, key=lambda algorithm: algorithm.cost)


def _unpriced(problem: QuantizedProblem, target: Target) -> Iterator[Algorithm]:
    """Those that gain over products of f32, which widen bf16 as they read it."""
    dots = Bf16Dots()
    if not target.slow_dot_bf16:
        plan = best_plan(problem, target, dots, partial(BytePanels.of, dots))
        yield replace(register_algorithm(problem, plan), name=PAIRS)
    tiles = tiles_for(problem, dots, target) if target.bf16_tiles else None
    if tiles is not None:
        yield tiles


def problem_of(step: OpInstr) -> QuantizedProblem:
    """The problem of a product of bf16: rows of pairs times columns."""
    if isinstance(step.op, MatMul):
        return problem_of_matrices(step, step.op, bf16, together=PAIR)
    assert isinstance(step.op, Conv)
    _, weight = operands(step)
    reading = reading_of_windows(step, step.op, 0, bf16, PAIR, fills=True)
    inner = weight.type.shape[-1]
    own = replace(weight_of_windows(weight, step.op), inner=inner, fill=-inner % PAIR)
    return problem_of_windows(step, step.op, reading, own, together=PAIR)


def _packs_fast(problem: QuantizedProblem) -> bool:
    """Whether weights are packed when the model is compiled, or vectors of them can be loaded.

    Groups of an odd number of channels are not filled up: an infinity would meet a zero.
    """
    weight = problem.weight
    if weight.fill and problem.groups > 1:
        return False
    return weight.is_constant or (weight.column_stride == 1 and not weight.fill)


def _cost(algorithm: Algorithm, problem: QuantizedProblem) -> float:
    """The cost of the products, or of reading weights; and that of copies made before."""
    size = problem.weight.count * problem.weight.columns * problem.depth
    cost = memory_bound(algorithm.cost, bf16.itemsize * size)
    if problem.reading.copied:
        cost += COPIED_BYTE * bf16.itemsize * largest(problem.reading.size)
    return cost if problem.weight.is_constant else cost + PACKED_ELEMENT * size
