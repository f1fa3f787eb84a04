"""Strassen's algorithm for a ranged number of rows: from some number on it pays.

Fewer rows are multiplied directly. Both read one packing, which begins with panels of rhs: their
upper and lower halves are quarters.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from afterglow.backends.cpu.kernels.strassen.plan import (
    ENOUGH_BLOCKS,
    LEAST_TILES,
    MANY_BLOCKS,
    UNITS_APART,
    StrassenPlan,
    applies,
    rows_in_cache,
)
from afterglow.backends.cpu.kernels.strassen.product import StrassenProduct
from afterglow.backends.cpu.micro.cost import STRASSEN_GAIN, waiting
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr
from afterglow.types.extent import larger_extent, largest, smaller_extent

MOST_HEIGHT = 6
"""Rows of a tile at most: there is code for several heights."""
FEW_STEPS = 2
"""Steps between the numbers of rows for which the gain is estimated."""
LEAST_ROWS = 16
"""Rows from which it may be used."""
LEAST_APART = 4 * LEAST_TILES
"""Tiles from which whole blocks are units: there are several of them."""


def plan_ranged_strassen(
    product: StrassenProduct, step: OpInstr, target: Target
) -> StrassenPlan | None:
    """The plan for a product with a ranged number of rows, if it is faster for many of them."""
    if not applies(product, step, target):
        return None
    most = largest(product.rows)
    plan = StrassenPlan.of(_with_rows(product, most), target, MOST_HEIGHT, compact=True)
    if plan is None:
        return None
    own = replace(plan, product=product)
    tiles_of_block = rows_in_cache(product, target) // plan.tile.rows
    blocks = -(-own.tiles // tiles_of_block)
    wanted = UNITS_APART if largest(blocks) >= MANY_BLOCKS else -(-ENOUGH_BLOCKS // plan.panels)
    blocks = larger_extent(blocks, smaller_extent(wanted, own.tiles // LEAST_TILES))
    own = replace(own, blocks=larger_extent(1, blocks), most_tiles=tiles_of_block)
    found = _least_rows(own, target)
    return None if found is None else replace(own, least_rows=found)


def _least_rows(plan: StrassenPlan, target: Target) -> int | None:
    """Rows from which the algorithm pays; None if that are more than there may be."""
    most = plan.tile.rows
    # from then on tiles are of the two largest heights
    start = max(LEAST_ROWS, 2 * (LEAST_APART * most if plan.apart else (most - 1) * (most - 2)))
    tried = range(start, largest(plan.product.rows) // 2 + 1, FEW_STEPS)
    place = bisect_left(tried, True, key=lambda rows: _pays(plan.product, rows, target))
    return tried[place] if place < len(tried) else None


def _pays(product: StrassenProduct, rows: int, target: Target) -> bool:
    """Whether the algorithm pays for a number of rows: the more there are, the more it does."""
    plan = StrassenPlan.of(_with_rows(product, rows), target, MOST_HEIGHT, compact=True)
    if plan is None:
        return False
    return plan.gain > STRASSEN_GAIN + waiting(plan.waits) / plan.product.work


def _with_rows(product: StrassenProduct, rows: int) -> StrassenProduct:
    return replace(product, places=Axes((rows,), (1,)))
