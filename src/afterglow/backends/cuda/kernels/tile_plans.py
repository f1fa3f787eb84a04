"""Which tiles a product may be computed in, the best by its estimate first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from afterglow.backends.cuda.kernels.tile import IEEE, REGISTERS, Tile
from afterglow.backends.cuda.kernels.tile_cost import (
    WARP,
    Work,
    fits,
    registers,
    seconds,
)
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.job import Job
from afterglow.instr import KernelPlan

MOST = 20
"""Plans of a kernel."""
LEAST = 16
"""Rows or columns of a tile at least."""
SPLITS = (1, 2, 3, 4, 6, 8, 16)
"""Programs that share the terms of a block."""
FEW_WARPS = 4
"""Warps of programs of which a multiprocessor holds several anyhow."""
MOST_PROGRAMS = 4
"""Programs a multiprocessor up to which more of them share terms."""
NARROW = (
    (128, 256, 64, 8, 3),
    (256, 128, 64, 8, 3),
    (128, 128, 64, 8, 3),
    (128, 128, 64, 4, 4),
    (128, 64, 64, 4, 4),
    (64, 256, 64, 4, 3),
    (64, 128, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 64, 64, 4, 5),
    (64, 64, 128, 4, 3),
    (128, 32, 64, 4, 4),
    (64, 32, 128, 4, 4),
    (32, 64, 64, 4, 5),
    (32, 32, 128, 4, 4),
    (16, 64, 128, 4, 4),
    (16, 32, 128, 2, 5),
    (16, 32, 256, 4, 3),
)
"""Tiles of floats of 16 bits: rows, columns, terms, warps, stages."""
SINGLE = (
    (128, 128, 16, 8, 3),
    (128, 64, 16, 8, 3),
    (64, 128, 16, 8, 3),
    (64, 64, 16, 4, 3),
    (64, 64, 32, 8, 3),
    (64, 32, 32, 4, 4),
    (32, 64, 32, 4, 4),
    (32, 32, 32, 4, 4),
    (16, 64, 32, 4, 4),
    (16, 32, 32, 4, 4),
    (16, 32, 64, 4, 3),
)
"""Tiles of f32, whose sums are made without tensor cores."""


def plans_of(work: Work, target: CudaTarget, precision: str = IEEE) -> list[KernelPlan]:
    """The plans of a product."""
    tiles = dict.fromkeys(_tiles(work, target, precision))
    estimates = sorted((seconds(tile, work, target), place) for place, tile in enumerate(tiles))
    every = [*tiles]
    return [_plan(every[place], work, target.cost_of(time)) for time, place in estimates[:MOST]]


def _plan(tile: Tile, work: Work, cost: float) -> KernelPlan:
    copied = work.packs(tile.terms)
    plan = tile.plan(work.extents, cost)
    if not copied:
        return plan
    return replace(plan, packed=(1,), weight_growth=max(0, copied - work.right))


def _tiles(work: Work, target: CudaTarget, precision: str) -> Iterator[Tile]:
    plain = work.is_single and precision == IEEE
    for rows, columns, terms, warps, stages in SINGLE if plain else NARROW:
        scaled = max(terms if plain else terms * 2 // work.bytes[0], work.least_terms)
        tile = Tile(
            min(rows, max(LEAST, power_of_two(work.extents.rows))),
            min(columns, max(LEAST, power_of_two(work.extents.columns))),
            scaled,
            warps,
            max(2, stages * terms // scaled) if scaled > terms * 2 else stages,
            precision=precision,
        )
        for own in _terms(work, scaled):
            for splits in _splits(replace(tile, terms=own), work, target):
                found = replace(tile, terms=own, splits=splits)
                for each in (found, replace(found, early=True)):
                    if fits(each, work, target) and _may_be_early(each, work):
                        yield each


def _may_be_early(tile: Tile, work: Work) -> bool:
    """Whether operands of the epilogue may be read before the loop, if a tile wants that.

    They stay in registers meanwhile: programs of many warps must still fit a multiprocessor twice.
    """
    if not tile.early:
        return True
    threads = tile.warps * WARP
    roomy = tile.warps <= FEW_WARPS or 2 * threads * registers(tile, work) <= REGISTERS
    return work.read_more > 0 and tile.splits == 1 and roomy


def _terms(work: Work, wanted: int) -> list[int]:
    """Terms of a block: as many as wanted, or so few that none are in vain."""
    if work.line:
        return [work.line]
    most = min(wanted, max(work.least_terms, power_of_two(work.unit)))
    exact = math.gcd(work.unit, most)
    return [most] if exact in (most, 1) or exact < 2 * work.least_terms else [most, exact]


def _splits(tile: Tile, work: Work, target: CudaTarget) -> list[int]:
    """How many programs may share the terms of a block."""
    blocks, steps = tile.blocks(work.extents), work.steps(tile.terms)
    room = MOST_PROGRAMS * target.units
    return [n for n in SPLITS if n == 1 or (2 * n <= steps and blocks * n <= room)]


def power_of_two(number: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << max(0, number - 1).bit_length()


def moved_bytes(job: Job) -> int:
    """What a kernel reads and writes."""
    return sum(buffer.type.nbytes for buffer in job.buffers)
