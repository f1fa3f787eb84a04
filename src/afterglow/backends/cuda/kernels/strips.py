"""Which strips a product of a few rows may be computed in, and how long that takes, about."""

from __future__ import annotations

import itertools

from afterglow.backends.cuda.kernels.matrices import Layout
from afterglow.backends.cuda.kernels.tile import PARTIALS, REGISTERS, SUM_BYTES
from afterglow.backends.cuda.kernels.tile_cost import (
    BEGIN,
    END,
    LAUNCH,
    LOAD,
    MEMORY,
    SHARE,
    SHARING,
    VECTOR,
    WARP,
    WARPS,
)
from afterglow.backends.cuda.kernels.tile_plans import moved_bytes, power_of_two
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.job import Job
from afterglow.instr import KernelPlan
from afterglow.support.lazy_dataclass import dataclass

ROWS = "rows"
"""The algorithm: vectors of terms, a row after the other."""
MOST_ROWS = 4
MOST_ROWS_OF_SINGLES = 8
"""Rows up to which it is tried: f32 have no faster way."""
COLUMNS = (2, 4, 8, 16)
TERMS = (256, 512, 1024)
"""Columns and terms of a block."""
SPLITS = (1, 2, 3, 4, 6, 8)
BLOCK_WARPS = (4, 8)
MOST_SUMS = 64
"""Sums of a thread."""
UNROLLED = 8
"""Iterations that are written out one after the other."""


@dataclass(frozen=True)
class Strip:
    """The columns of a program, the terms that it takes at a time, and who shares them."""

    columns: int
    terms: int
    warps: int
    splits: int

    @staticmethod
    def of(plan: KernelPlan) -> Strip:
        """What a plan says."""
        shape, warps = plan.settings["tile"], plan.settings["warps"]
        splits = plan.settings.get("split", 1)
        assert isinstance(shape, tuple)
        assert isinstance(warps, int)
        assert isinstance(splits, int)
        columns, terms = shape
        return Strip(columns, terms, warps, splits)

    def sums(self, rows: int) -> int:
        """Sums of a thread."""
        return rows * self.columns * self.terms // (self.warps * WARP)

    def programs(self, layout: Layout) -> int:
        """How many programs there are, of those that share terms one."""
        return -(-layout.extents.columns // self.columns) * layout.extents.count

    def steps(self, layout: Layout) -> int:
        """Iterations of a program."""
        return -(-layout.extents.terms // (self.terms * self.splits))


def plans_of_rows(layout: Layout, job: Job, target: CudaTarget) -> list[KernelPlan]:
    """Strips of several shapes; none if there are many rows."""
    rows, size = layout.extents.rows, layout.lhs.type.dtype.itemsize
    if rows > (MOST_ROWS_OF_SINGLES if size == 4 else MOST_ROWS):
        return []
    terms = {min(n, power_of_two(layout.extents.terms)) for n in TERMS}
    shapes = itertools.product(COLUMNS, sorted(terms), BLOCK_WARPS, SPLITS)
    strips = [strip for strip in itertools.starmap(Strip, shapes) if _suits(strip, layout)]
    return [_plan(strip, layout, job, target) for strip in strips]


def _suits(strip: Strip, layout: Layout) -> bool:
    """Whether threads have enough to do, and not too many sums; whether shares are whole."""
    steps = -(-layout.extents.terms // strip.terms)
    vector = VECTOR // layout.rhs.type.dtype.itemsize
    return (
        steps % strip.splits == 0
        and (strip.sums(1) >= vector or strip.terms < TERMS[0])
        and strip.sums(layout.extents.rows) <= MOST_SUMS
    )


def _plan(strip: Strip, layout: Layout, job: Job, target: CudaTarget) -> KernelPlan:
    settings: dict[str, int | tuple[int, ...]] = {
        "tile": (strip.columns, strip.terms),
        "warps": strip.warps,
    }
    workspace = {}
    if strip.splits > 1:
        settings["split"] = strip.splits
        room = layout.extents.rows * strip.columns * strip.splits * SUM_BYTES
        workspace[PARTIALS] = strip.programs(layout) * room
    packed = (1,) if layout.packs(strip.terms) else ()
    cost = target.cost_of(_seconds(strip, layout, job, target))
    return KernelPlan(ROWS, settings, cost, workspace, packed=packed)


def _seconds(strip: Strip, layout: Layout, job: Job, target: CudaTarget) -> float:
    """The time of a kernel: of the memory, or of one read after the other."""
    programs, steps = strip.programs(layout) * strip.splits, strip.steps(layout)
    unrolled = unrolled_steps(steps)
    registers = 40 + strip.sums(layout.extents.rows) + 4 * unrolled
    together = max(1, min(WARPS // strip.warps, REGISTERS // (registers * WARP * strip.warps)))
    waves = -(-programs // (target.units * together))
    sharing = SHARING + SHARE * strip.splits if strip.splits > 1 else 0.0
    wanted = layout.extents.terms / (steps * strip.splits * strip.terms)
    memory = moved_bytes(job) / (target.bandwidth * MEMORY) / wanted
    chain = BEGIN + END + sharing + LOAD * (steps // unrolled - 1)
    return LAUNCH + max(waves * chain, memory + BEGIN + END + sharing)


def unrolled_steps(steps: int) -> int:
    """How many iterations are written out."""
    return max(n for n in range(1, UNROLLED + 1) if steps % n == 0)
