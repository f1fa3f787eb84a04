"""Products with, and look-ups in, matrices that are stored as integers with scales."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.cpu.kernels.algorithm import Algorithm, with_few
from afterglow.backends.cpu.kernels.matmul.gemm import MOST_TILES
from afterglow.backends.cpu.kernels.matmul.plan import tile_costs
from afterglow.backends.cpu.kernels.stored.few_rows import (
    FEW,
    FEW_BYTES,
    few_rows_algorithm,
    few_rows_tile,
    row_forms,
    rows_of,
)
from afterglow.backends.cpu.kernels.stored.gather import gather_needs, write_gather
from afterglow.backends.cpu.kernels.stored.many_rows import many_rows_algorithm, stored_problem
from afterglow.backends.cpu.kernels.stored.panels import is_packable
from afterglow.backends.cpu.kernels.stored.row_forms import RowForm
from afterglow.backends.cpu.kernels.table import algorithms, kernel
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.backends.cpu.micro.tile import RegisterTile
from afterglow.instr import OpInstr
from afterglow.ops.stored import StoredGather, StoredMatMul
from afterglow.types.extent import is_ranged, largest, smaller_extent, smallest

FEW_OF_MANY = 2
"""Rows that are few where there may be more: the panels are as wide as for many."""


def _name(step: OpInstr) -> str:
    """The stored bits and the extents of the matrix: `stored_matmul_4x768x2304`."""
    stored = step.required[1].type
    columns, depth = stored.shape
    return f"stored_matmul_{stored.dtype.bits}x{depth}x{columns}"


@algorithms(StoredMatMul, name=_name, accepts=is_packable)
def matmul(r: KernelRequest) -> list[Algorithm]:
    """A product with a stored matrix: numbers are widened for each row, or for many at once."""
    rows = rows_of(r)
    if largest(rows) <= FEW:
        most = largest(rows)
        return [_few_rows(r, form, most, most) for form in row_forms(r, most)]
    tiles = tile_costs(stored_problem(r), r.target)[:MOST_TILES]
    if smallest(rows) > FEW_OF_MANY:
        many = [many_rows_algorithm(r, tile, cost) for tile, cost in tiles]
        return many if is_ranged(rows) else [*_shared_tiles(r, rows), *many]
    return [
        _any_rows(r, tile, form, cost) for form in row_forms(r, FEW_OF_MANY) for tile, cost in tiles
    ]


def _few_rows(r: KernelRequest, form: RowForm, rows: int, height: int) -> Algorithm:
    """Few rows, in tiles of a height at most."""
    return few_rows_algorithm(r, few_rows_tile(r, height, form), form, rows)


def _shared_tiles(r: KernelRequest, rows: int) -> list[Algorithm]:
    """Several tiles, which share a panel in a near cache, if rows are bytes and few enough."""
    height = -(-rows // -(-rows // FEW))
    forms = [form for form in row_forms(r, height) if form.is_relative and rows <= FEW_BYTES]
    return [_few_rows(r, form, rows, height) for form in forms]


def _any_rows(r: KernelRequest, tile: RegisterTile, form: RowForm, cost: float) -> Algorithm:
    """Few rows in some runs, and many in others."""
    is_few = 1 - smaller_extent(1, rows_of(r) // (FEW_OF_MANY + 1))
    many = many_rows_algorithm(r, tile, cost, 1 - is_few)
    few = few_rows_algorithm(r, tile.with_rows(FEW_OF_MANY), form, FEW_OF_MANY, is_few)
    both = with_few(many, few)
    return replace(both, settings={**both.settings, "rows": form.name})


kernel(StoredGather, accepts=is_packable, needs=gather_needs)(write_gather)
