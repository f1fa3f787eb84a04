"""Versions of attention for few queries and for many, and which of them a problem needs.

A ranged number of queries may need several: then the code chooses when it runs.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.attention.block_plan import VECTORS, BlockPlan
from afterglow.backends.cpu.kernels.attention.blocks import Blocks
from afterglow.backends.cpu.kernels.attention.problem import AttentionProblem, Scratch, lanes_of
from afterglow.backends.cpu.kernels.attention.single import Single, single_scratch
from afterglow.backends.cpu.llvm.emitter import Pointer
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, Phase, Storage
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import is_ranged, largest, smallest


@dataclass(frozen=True)
class Version:
    """Attention of at most `most` queries: one by one if there is no plan, else in blocks."""

    most: int
    plan: BlockPlan | None = None

    @property
    def blocks(self) -> int:
        """Blocks of a head."""
        if self.plan is None or self.most <= self.plan.queries:
            return 1
        return self.plan.blocks

    def scratch(self, problem: AttentionProblem, target: Target) -> dict[str, Storage]:
        """The memory that a thread needs."""
        return single_scratch(problem, target) if self.plan is None else self.plan.scratch

    def write(self, p: Phase, problem: AttentionProblem, scratch: Scratch) -> None:
        """Write all units: a head each, or a block of the queries of one."""
        if self.plan is None:
            single = Single(p, problem, scratch)
            with p.units() as unit:
                batch, head = split(unit, problem.heads)
                with p.e.loop(problem.queries, name="query") as query:
                    single.write(batch, head, query)
            return
        blocks = Blocks(p, self.plan, scratch)
        with p.units() as unit:
            rest, block = split(unit, self.blocks)
            batch, head = split(rest, problem.heads)
            blocks.write(batch, head, p.e.index(block * self.plan.queries))


def attention_algorithm(problem: AttentionProblem, target: Target) -> Algorithm:
    """The algorithm for any number of queries that the problem may have."""
    versions = _versions(problem, target)
    scratch: dict[str, Storage] = {}
    for version in versions:
        for name, storage in version.scratch(problem, target).items():
            before = scratch.get(name, storage)
            scratch[name] = max(before, storage, key=lambda storage: storage.nbytes)
    plan = versions[-1].plan
    kinds = ["by-query"] * (versions[0].plan is None) + ["block"] * (plan is not None)
    return Algorithm(
        "by-block" if kinds == ["block"] else "-or-".join(kinds),
        float(problem.work),
        lambda k: _write(k, problem, versions),
        KernelNeeds(scratch=scratch),
        {} if plan is None else {"queries": plan.queries, "keys": plan.largest_part},
    )


def _versions(problem: AttentionProblem, target: Target) -> list[Version]:
    """Those that the number of queries allows, the one with the fewest first."""
    lanes = lanes_of(problem, target)
    few, least, most = (lanes - 1) // 2, smallest(problem.queries), largest(problem.queries)
    if problem.keys == 0 or most <= few:
        return [Version(most)]
    versions = [Version(few)] if least <= few else []
    first = max(1, -(-max(least, few + 1) // lanes))
    for vectors in range(min(VECTORS, first), min(VECTORS, -(-most // lanes)) + 1):
        queries = vectors * lanes
        last = most if vectors == VECTORS else min(most, queries)
        versions.append(Version(last, BlockPlan(problem, target, queries)))
    # few queries that see no more keys take so little time that idle lanes do not matter
    itself = is_ranged(problem.keys) and problem.keys == problem.queries
    return versions[-1:] if itself else versions


def _write(kernel: Kernel, problem: AttentionProblem, versions: list[Version]) -> None:
    """Write a kernel whose units are heads, or blocks of queries of one head."""
    units = problem.batch * problem.heads * versions[-1].blocks
    with kernel.phase(units, problem.work) as p:
        if len(versions) == 1:
            versions[0].write(p, problem, p.scratch)
            return
        queries, before, scratch = p.e.index(problem.queries), -1, _SharedScratch(p)
        for version in versions:
            with p.e.when((queries > before) & (queries <= version.most)):
                version.write(p, problem, scratch)
            before = version.most


class _SharedScratch:
    """Memory of a thread that several versions use, of which one runs."""

    def __init__(self, p: Phase) -> None:
        self.p = p
        self.known: dict[str, Pointer] = {}

    def __call__(self, name: str) -> Pointer:
        """The memory of that name."""
        if name not in self.known:
            with self.p.e.at_entry():
                self.known[name] = self.p.scratch(name)
        return self.known[name]
