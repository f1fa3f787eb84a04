"""Which strips a product of a few rows may be computed in, and how long that takes, about."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from afterglow.backends.cuda.kernels.tile import PARTIALS, REGISTERS, SUM_BYTES, Extents
from afterglow.backends.cuda.kernels.tile_cost import (
    BEGIN,
    END,
    LAUNCH,
    LOAD,
    MEMORY,
    PLAIN,
    SHARE,
    SHARING,
    WARP,
    WARPS,
)
from afterglow.backends.cuda.kernels.tile_plans import power_of_two
from afterglow.backends.cuda.target import CudaTarget
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

    def sums(self, work: RowWork, rows: int) -> int:
        """Sums of a thread."""
        return rows * self.columns * self.terms // (work.added * self.warps * WARP)

    def programs(self, extents: Extents) -> int:
        """How many programs there are, of those that share terms one."""
        return -(-extents.columns // self.columns) * extents.count

    def steps(self, extents: Extents) -> int:
        """Iterations of a program."""
        return -(-extents.terms // (self.terms * self.splits))


@dataclass(frozen=True)
class RowWork:
    """What a product of a few rows is, as far as its time depends on that."""

    extents: Extents
    size: int
    """Bytes of an element of the left matrix."""
    vector: int
    """Elements of the right matrix that a thread reads at once."""
    moved: int
    """Bytes of all that is read and written."""
    packs: Callable[[int], bool]
    """Whether the right matrix is read from a copy, in blocks of so many terms."""
    least: int = 1
    """Terms of which a block has a multiple."""
    added: int = 1
    """Products that are added to one sum in each block of terms."""
    operations: int = 0
    """Of each element of the right matrix, before it is multiplied."""


def plans_of_rows(work: RowWork, target: CudaTarget) -> list[KernelPlan]:
    """Strips of several shapes; none if there are many rows."""
    if work.extents.rows > (MOST_ROWS_OF_SINGLES if work.size == 4 else MOST_ROWS):
        return []
    most = max(work.least, power_of_two(work.extents.terms))
    terms = {min(n * work.added, most) for n in TERMS}
    shapes = itertools.product(COLUMNS, sorted(terms), BLOCK_WARPS, SPLITS)
    strips = [strip for strip in itertools.starmap(Strip, shapes) if _suits(strip, work)]
    return [_plan(strip, work, target) for strip in strips]


def _suits(strip: Strip, work: RowWork) -> bool:
    """Whether threads have enough to do, and not too many sums; whether shares are whole."""
    steps = -(-work.extents.terms // strip.terms)
    own = strip.columns * strip.terms // (strip.warps * WARP)
    return (
        steps % strip.splits == 0
        and strip.terms % work.least == 0
        and (own >= work.vector or strip.terms < TERMS[0])
        and strip.sums(work, work.extents.rows) <= MOST_SUMS
    )


def _plan(strip: Strip, work: RowWork, target: CudaTarget) -> KernelPlan:
    settings: dict[str, int | tuple[int, ...]] = {
        "tile": (strip.columns, strip.terms),
        "warps": strip.warps,
    }
    workspace = {}
    if strip.splits > 1:
        settings["split"] = strip.splits
        room = work.extents.rows * strip.columns * strip.splits * SUM_BYTES
        workspace[PARTIALS] = strip.programs(work.extents) * room
    packed = (1,) if work.packs(strip.terms) else ()
    cost = target.cost_of(_seconds(strip, work, target))
    return KernelPlan(ROWS, settings, cost, workspace, packed=packed)


def _seconds(strip: Strip, work: RowWork, target: CudaTarget) -> float:
    """The time of a kernel: of the memory, or of one read after the other."""
    extents = work.extents
    programs, steps = strip.programs(extents) * strip.splits, strip.steps(extents)
    unrolled = unrolled_steps(steps)
    registers = 40 + strip.sums(work, extents.rows) + 4 * unrolled
    together = max(1, min(WARPS // strip.warps, REGISTERS // (registers * WARP * strip.warps)))
    waves = -(-programs // (target.units * together))
    sharing = SHARING + SHARE * strip.splits if strip.splits > 1 else 0.0
    wanted = extents.terms / (steps * strip.splits * strip.terms)
    memory = work.moved / (target.bandwidth * MEMORY) / wanted
    each = work.operations + 2 * extents.rows if work.operations else 0
    arithmetic = each * extents.columns * extents.terms * extents.count / (PLAIN * target.flops)
    chain = BEGIN + END + sharing + LOAD * (steps // unrolled - 1)
    return LAUNCH + max(waves * chain, max(memory, arithmetic) + BEGIN + END + sharing)


def unrolled_steps(steps: int) -> int:
    """How many iterations are written out."""
    return max(n for n in range(1, UNROLLED + 1) if steps % n == 0)
