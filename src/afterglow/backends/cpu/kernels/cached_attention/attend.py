"""Attention over caches, for few tokens and for many.

Few tokens, as while decoding, are too few units for many threads: positions are divided as well,
into blocks, and the parts of blocks are added up in their order. How many units there are never
depends on the number of threads. Many tokens are cut into runs that share keys and values.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.cached_attention.places import Places
from afterglow.backends.cpu.kernels.cached_attention.problem import CacheProblem
from afterglow.backends.cpu.kernels.cached_attention.query_block import (
    QueryBlock,
    RowPlan,
    TokenRun,
)
from afterglow.backends.cpu.kernels.cached_attention.token_rows import (
    TokenRows,
    block_of,
    block_span,
    part_size,
    token_scratch,
)
from afterglow.backends.cpu.kernels.table import algorithms
from afterglow.backends.cpu.kernels.versions import chosen_by_extents, is_less
from afterglow.backends.cpu.llvm.emitter import Value, equal, quotient, smaller
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.target import Target
from afterglow.ops.cached_attention import CachedAttention
from afterglow.types.extent import largest, smallest

FEW = 4
"""Tokens at most whose positions are divided among units."""
SPLITS = 16
"""Units at most that share the positions of a token."""


@algorithms(CachedAttention, exact=("keys", "values"))
def cached_attention(r: KernelRequest) -> list[Algorithm]:
    """By blocks of positions for few tokens, by runs for many; the code chooses when it runs."""
    problem = CacheProblem.of(r.step)
    few, many = _by_positions(problem, r.target), _by_runs(problem, r.target)
    if largest(problem.tokens) <= FEW:
        return [few]
    if smallest(problem.tokens) > FEW:
        return [many]
    is_few = is_less(problem.tokens, FEW + 1)
    return [chosen_by_extents([few, many], [is_few, 1 - is_few])]


def _by_positions(problem: CacheProblem, target: Target) -> Algorithm:
    size = part_size(problem)
    splits = min(SPLITS, problem.blocks)
    tokens = min(FEW, largest(problem.tokens))
    parts = Storage(problem.dtype, tokens * problem.shared * problem.blocks * size)

    def write(k: Kernel) -> None:
        with k.phase(problem.tokens * problem.shared * splits, problem.work, "parts") as p:
            _write_parts(p, problem, splits)
        work = float(tokens * problem.shared * problem.blocks * size)
        with k.phase(problem.tokens * problem.shared, work, "sum") as p:
            _write_sums(p, problem)

    needs = KernelNeeds({"parts": parts}, token_scratch(problem, target))
    return Algorithm("by-positions", float(largest(int(problem.work))), write, needs)


def _write_parts(p: Phase, problem: CacheProblem, splits: int) -> None:
    """A unit has some of the blocks of positions that a token sees, for one head."""
    rows, places, parts = TokenRows(p, problem), Places(p), p.workspace("parts")
    with p.units() as unit:
        number, share = split(unit, splits)
        token, head = split(number, problem.shared)
        position, sequence = places.of(token)
        first, stop = problem.first(position), position + 1
        begin = block_of(first)
        count = block_of(position) + 1 - begin
        start, end = (quotient(count * at, splits) + begin for at in (share, share + 1))
        with p.e.when(start < end):
            rows.load_query(token, head)
            with p.e.loop(end, start=start, name="block") as block:
                part = parts + (number * problem.blocks + block) * part_size(problem)
                rows.write_part(part, sequence, head, *block_span(block, first, stop))


def _write_sums(p: Phase, problem: CacheProblem) -> None:
    """A unit is a token with one head."""
    rows, places, parts = TokenRows(p, problem), Places(p), p.workspace("parts")
    with p.units() as unit:
        token, head = split(unit, problem.shared)
        position, _ = places.of(token)
        begin = block_of(problem.first(position))
        own = parts + unit * (problem.blocks * part_size(problem))
        rows.copy_part(own + begin * part_size(problem))
        with p.e.loop(block_of(position) + 1, start=begin + 1, name="block") as block:
            rows.add_part(own + block * part_size(problem))
        rows.put(token, head)


def _by_runs(problem: CacheProblem, target: Target) -> Algorithm:
    plan = RowPlan.of(problem, target)
    blocks = -(-problem.tokens // plan.tokens)

    def write(k: Kernel) -> None:
        units = blocks * problem.shared * plan.passes
        with k.phase(units, problem.work, "runs") as p:
            _write_runs(p, plan)

    needs = KernelNeeds(scratch=token_scratch(problem, target) | plan.scratch())
    settings = {"queries": plan.tokens}
    return Algorithm("by-runs", float(largest(int(problem.work))), write, needs, settings)


def _write_runs(p: Phase, plan: RowPlan) -> None:
    """A unit has some tokens, with some of the heads that share a head of the caches."""
    e, problem = p.e, plan.problem
    places, block, single = Places(p), QueryBlock(p, plan), TokenRows(p, problem)
    with p.units() as unit:
        rest, number = split(unit, plan.passes)
        tokens, shared = split(rest, problem.shared)
        start = e.index(tokens) * plan.tokens
        end = smaller(start + plan.tokens, problem.tokens)

        def write_run(state: list[Value]) -> list[Value]:
            """The run from a token on; the token behind it."""
            run = _run_from(p, places, state[0], end)
            many = run.count * (2 * plan.heads) >= plan.tile.lanes
            with e.when(many):
                block.write(run, shared, number)
            # the first pass over heads takes all of them
            alone = ~many & equal(e.index(number), 0)
            with e.when(alone), e.loop(run.count, name="token") as at:
                single.write_all(run.first + at, shared, run.position + at, run.sequence)
            return [run.first + run.count]

        e.iterate([start], write_run, while_=lambda state: state[0] < end)


def _run_from(p: Phase, places: Places, first: Value, end: Value) -> TokenRun:
    """The longest run of tokens from one on."""
    position, sequence = places.of(first)

    def belongs(state: list[Value]) -> Value:
        # the last token stands for those behind it, which are not looked at
        at, of = places.of(smaller(first + state[0], end - 1))
        is_next = equal(of, sequence) & equal(at, position + state[0])
        return is_next & (first + state[0] < end)

    (count,) = p.e.iterate([p.e.index(1)], lambda state: [state[0] + 1], while_=belongs)
    return TokenRun(first, count, position, sequence)
