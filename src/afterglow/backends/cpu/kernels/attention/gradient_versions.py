"""Versions of the gradient of attention: units that are heads, or blocks of queries and of keys.

Heads of keys are units if there are enough of them: then scores are computed once. For few heads
what queries get is computed in one phase, what keys and values get in another: it computes scores
again, with the statistics of the first, but threads share the blocks of a head.
"""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.attention.block_plan import VECTORS
from afterglow.backends.cpu.kernels.attention.columns import load_vectors, store_vectors
from afterglow.backends.cpu.kernels.attention.gradient import GradientBlocks, Stats
from afterglow.backends.cpu.kernels.attention.gradient_plan import GradientPlan
from afterglow.backends.cpu.kernels.attention.problem import Heads, lanes_of, problem_of
from afterglow.backends.cpu.kernels.attention.weights import LOWEST, weight
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, larger, quotient, smaller
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr

FEW_HEADS = 4
"""Fewer heads of keys than this leave threads idle: heads as units count double."""
AGAIN = 7 / 5
"""How many more products there are if scores, and what flows back to weights, are computed twice.
"""
STATS = "stats"


def gradient_algorithms(step: OpInstr, target: Target) -> list[Algorithm]:
    """By heads, or by blocks if heads are few."""
    problem = problem_of(step)
    grad = step.required[3]
    lanes = lanes_of(problem, target)
    queries = min(VECTORS, max(1, -(-problem.queries // lanes))) * lanes
    plan = GradientPlan(problem, target, queries, Heads(grad, grad.strides))
    settings = {"queries": queries}
    found = [
        Algorithm(
            "by-head",
            plan.work * (2 if problem.batch * plan.shared_heads < FEW_HEADS else 1),
            lambda k: _write_heads(k, plan),
            KernelNeeds(scratch=plan.scratch),
            settings,
        )
    ]
    cut = replace(plan, is_cut=True)
    if cut.key_blocks > 1:
        stats = {STATS: Storage(plan.dtype, _query_blocks(plan) * 3 * queries)}
        found.append(
            Algorithm(
                "by-block",
                AGAIN * plan.work,
                lambda k: _write_blocks(k, cut),
                KernelNeeds(stats, cut.scratch),
                {**settings, "keys": cut.summed_keys},
                waits=1,
            )
        )
    return sorted(found, key=lambda algorithm: algorithm.shared_cost)


def _query_blocks(plan: GradientPlan) -> int:
    return plan.problem.batch * plan.problem.heads * plan.blocks


def _write_heads(kernel: Kernel, plan: GradientPlan) -> None:
    """Write a kernel whose units are heads of keys."""
    problem, heads = plan.problem, plan.shared_heads
    with kernel.phase(problem.batch * heads, plan.work) as p:
        blocks = GradientBlocks(p, plan)
        with p.units() as unit:
            batch, shared = split(unit, heads)
            blocks.clear(problem.keys)
            with p.e.loop(problem.k.sharing, name="head") as number:
                head = shared * problem.k.sharing + number
                with p.e.loop(plan.blocks, name="block") as block:
                    first = block * plan.queries
                    _write_queries(blocks, batch, head, first)
                    blocks.add_block(batch, head, first, blocks.seen(first))
            blocks.put_keys(batch, shared, p.e.index(0), 0, problem.keys)


def _write_queries(blocks: GradientBlocks, batch: Index, head: Index, first: Value) -> Stats:
    """Weights and what flows back to scores, for a block of queries, and what these get."""
    problem, seen = blocks.problem, blocks.seen(first)
    k, v = problem.k.at(blocks.k, batch, head), problem.v.at(blocks.v, batch, head)
    blocks.begin_block(batch, head, first)
    stats = blocks.write_weights(k, v, seen)
    blocks.put_queries(k, batch, head, first, seen)
    return stats


def _write_blocks(kernel: Kernel, plan: GradientPlan) -> None:
    """Write a kernel whose units are blocks of queries, then blocks of keys."""
    problem = plan.problem
    with kernel.phase(_query_blocks(plan), AGAIN * plan.work / 2, "queries") as p:
        blocks, stats = GradientBlocks(p, plan), p.workspace(STATS)
        with p.units() as unit:
            rest, block = split(unit, plan.blocks)
            batch, head = split(rest, problem.heads)
            found = _write_queries(blocks, batch, head, p.e.index(block) * plan.queries)
            line = stats + unit * (3 * plan.queries)
            for number, vectors in enumerate((found.peaks, found.shares, found.means)):
                store_vectors(line + number * plan.queries, vectors)
    units = problem.batch * plan.shared_heads * plan.key_blocks
    with kernel.phase(units, AGAIN * plan.work / 2, "keys") as p:
        keys = _Keys(p, plan)
        with p.units() as unit:
            rest, block = split(unit, plan.key_blocks)
            keys.write(*split(rest, plan.shared_heads), p.e.index(block))


class _Keys:
    """Writes what is done for a block of keys; the last one may begin within the one before."""

    def __init__(self, p: Phase, plan: GradientPlan) -> None:
        self.e, self.plan, self.problem = p.e, plan, plan.problem
        self.blocks, self.stats = GradientBlocks(p, plan), p.workspace(STATS)

    def write(self, batch: Index, shared: Index, block: Value) -> None:
        """What a block of keys and values gets from all queries that see it."""
        plan, problem, count = self.plan, self.problem, self.plan.summed_keys
        start = smaller(block * count, problem.keys - count)
        self.blocks.clear(count)
        with self.e.loop(problem.k.sharing, name="head") as number:
            head = shared * problem.k.sharing + number
            with self.e.loop(plan.blocks, start=self._first_block(start), name="block") as queries:
                place = (batch * problem.heads + head) * plan.blocks + queries
                stats = self.stats + place * (3 * plan.queries)
                self._add_queries(batch, head, queries * plan.queries, start, stats)
        self.blocks.put_keys(batch, shared, start, block * count - start, count)

    def _first_block(self, start: Value) -> Value:
        """The first block of queries of which any sees the keys from `start` on."""
        if not self.problem.causal:
            return self.e.index(0)
        last = start - (self.problem.keys - self.problem.queries)
        return quotient(larger(last, 0), self.plan.queries)

    def _add_queries(
        self, batch: Index, head: Value, first: Value, start: Value, line: Pointer
    ) -> None:
        """The part of a block of queries, whose statistics are known."""
        blocks, problem, count = self.blocks, self.problem, self.plan.summed_keys
        k, v = problem.k.at(blocks.k, batch, head), problem.v.at(blocks.v, batch, head)
        blocks.begin_block(batch, head, first)
        lowest = [self.e.constant(blocks.dtype, LOWEST, blocks.lanes)] * blocks.vectors
        blocks.write_scores(k, start, count, lowest)
        blocks.write_behind(v + start * problem.v.row_stride, count)
        peaks, shares, means = (
            load_vectors(line + number * self.plan.queries, blocks.tile) for number in range(3)
        )
        with self.e.loop(count, name="key") as key:
            scores = blocks.load(blocks.scores + key * self.plan.queries)
            known = zip(scores, peaks, shares, strict=True)
            unit = problem.score_unit
            weights = [weight(score, peak, unit) * share for score, peak, share in known]
            blocks.store_flow(key, weights, means)
        blocks.add_block(batch, head, first, count)
