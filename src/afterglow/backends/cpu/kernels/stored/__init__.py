"""Products with, and look-ups in, matrices that are stored as integers with scales."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.cpu.kernels.algorithm import Algorithm, with_few
from afterglow.backends.cpu.kernels.matmul.gemm import MOST_TILES
from afterglow.backends.cpu.kernels.matmul.plan import tile_costs
from afterglow.backends.cpu.kernels.stored.gather import gather_needs, write_gather
from afterglow.backends.cpu.kernels.stored.many_rows import many_rows_algorithm, stored_problem
from afterglow.backends.cpu.kernels.stored.panels import StoredPanels, is_packable
from afterglow.backends.cpu.kernels.stored.product import (
    TILE_ROWS,
    product_algorithm,
    rounded_block,
    row_forms,
    rows_of,
)
from afterglow.backends.cpu.kernels.stored.row_forms import RowForm
from afterglow.backends.cpu.kernels.table import algorithms, kernel
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.backends.cpu.micro.tile import RegisterTile
from afterglow.instr import OpInstr
from afterglow.ops.stored import StoredGather, StoredMatMul
from afterglow.types.extent import is_ranged, largest, smaller_extent, smallest

FEW_OF_MANY = 2
"""Rows that are few where there may be more."""
FEW_BYTES = 64
"""Rows that are few if the machine has instructions for products of bytes."""


def _name(step: OpInstr) -> str:
    """The stored bits and the extents of the matrix: `stored_matmul_4x768x2304`."""
    stored = step.required[1].type
    columns, depth = stored.shape
    assert isinstance(step.op, StoredMatMul)
    return f"stored_matmul_{step.op.bits or stored.dtype.bits}x{depth}x{columns}"


@algorithms(StoredMatMul, name=_name, accepts=is_packable)
def matmul(r: KernelRequest) -> list[Algorithm]:
    """A product with a stored matrix: numbers are widened for a tile of rows, or for many."""
    rows, forms = rows_of(r), row_forms(r)
    most = largest(rows)
    if rounded_block(r) or most <= TILE_ROWS:
        return [product_algorithm(r, form, most) for form in forms]
    tiles = _tiles(r)
    if smallest(rows) > FEW_OF_MANY:
        many = [many_rows_algorithm(r, tile, cost) for tile, cost in tiles]
        native = [form for form in forms if form.is_native and most <= FEW_BYTES]
        few = [] if is_ranged(rows) else [product_algorithm(r, form, most) for form in native]
        return [*few, *many]
    return [_any_rows(r, tile, form, cost) for form in forms for tile, cost in tiles]


def _tiles(r: KernelRequest) -> list[tuple[RegisterTile, float]]:
    """The tiles that are as wide as the panels, the cheapest first, with their costs."""
    width = StoredPanels.of(r.step, r.target).width
    found = tile_costs(stored_problem(r), r.target)
    return [(tile, cost) for tile, cost in found if tile.columns == width][:MOST_TILES]


def _any_rows(r: KernelRequest, tile: RegisterTile, form: RowForm, cost: float) -> Algorithm:
    """Few rows in some runs, and many in others."""
    is_few = 1 - smaller_extent(1, rows_of(r) // (FEW_OF_MANY + 1))
    many = many_rows_algorithm(r, tile, cost, 1 - is_few)
    both = with_few(many, product_algorithm(r, form, FEW_OF_MANY, is_few))
    return replace(both, settings={**both.settings, "rows": form.name})


kernel(StoredGather, accepts=is_packable, needs=gather_needs)(write_gather)
