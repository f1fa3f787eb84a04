"""The right factors: sums of quarters of a constant, in panels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.backends.cpu.kernels.strassen.plan import PRODUCTS, StrassenPlan
from afterglow.backends.cpu.llvm.emitter import Pointer
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.packing import Pack, Packing
from afterglow.types import Array

SUMS = (0, 3, 5, 6)
"""The products whose right factors are no quarters."""
HALVES = ((0, 0), (0, 1), (1, 0), (1, 1))
"""The quarters: which half of the depth, and which of the columns."""
QUARTERS = {1: (0, 0), 2: (1, 0), 4: (1, 1)}
"""The others, and which half of the depth and of the columns they take."""


def pack_factors(plan: StrassenPlan) -> Pack:
    """The packing of rhs: by panel, product, depth, then column.

    For a ranged number of rows it is all panels of rhs, which have the quarters in them, then the
    other right factors, by panel. Sums are made in float64 and rounded once.
    """
    product, width, depth = plan.product, plan.tile.columns, plan.half_depth
    quarters = plan.panels * len(HALVES) * depth * width

    def pack(rhs: Array) -> Packing:
        lines = (product.columns, product.depth)
        by_column = rhs.reshape(lines) if product.by_columns else rhs.reshape(lines[::-1]).T

        def write(made: Array) -> None:
            cut = np.zeros((2, 2, depth, width), np.float32)
            for panel in range(plan.panels):
                _cut_quarters(cut, by_column, plan, panel)
                if plan.is_ranged:
                    halves = made[:quarters].reshape(2, plan.panels, 2, depth, width)
                    halves[:, panel] = cut.swapaxes(0, 1)
                    sums = made[quarters:].reshape(plan.panels, len(SUMS), depth, width)
                    _write_sums(cut, list(sums[panel]))
                else:
                    packed = made.reshape(plan.panels, PRODUCTS, depth, width)[panel]
                    for number, quarter in QUARTERS.items():
                        packed[number] = cut[quarter]
                    _write_sums(cut, [packed[number] for number in SUMS])

        return Packing((plan.packed_size,), np.dtype(np.float32), write)

    return pack


def _cut_quarters(cut: Array, by_column: Array, plan: StrassenPlan, panel: int) -> None:
    """Fill [half of the depth, half of the columns, depth, column] for a panel of each half."""
    depth, width = plan.half_depth, plan.tile.columns
    for lower, right in HALVES:
        first, start = lower * depth, right * plan.half_columns + panel * width
        part = by_column[start : start + width, first : first + depth].T
        cut[lower, right, : part.shape[0], : part.shape[1]] = part
        cut[lower, right, :, part.shape[1] :] = 0


def _write_sums(quarters: Array, to: Sequence[Array]) -> None:
    """Write the right factors that are sums, in the order of their products.

    The first and the third are differences of two numbers, which float32 rounds alike.
    """
    (b11, b12), (b21, b22) = quarters
    np.subtract(b12, b11, out=to[0])
    np.subtract(b22, b12, out=to[2])
    t2 = b22 - (b12.astype(np.float64) - b11)
    to[1][:] = t2
    to[3][:] = b21 - t2


def factor_places(plan: StrassenPlan) -> Array:
    """Where right factors lie in such a packing: a p + b for panel p, in panels of a factor.

    The first one of the next panel is the last.
    """
    sums = 4 * plan.panels
    places = [(4, sums), (2, 0), (2, 1), (4, sums + 1), (2, 2 * plan.panels + 1)]
    return np.array([*places, (4, sums + 2), (4, sums + 3), (4, sums + 4)], np.int64)


def packed_panels(p: Phase, plan: StrassenPlan) -> Pointer:
    """Where the packing of rhs lies."""
    return p.packed(plan.product.rhs, f"strassen{plan.tile.columns}", pack_factors(plan))


def pack_bias(plan: StrassenPlan) -> Pack:
    """The packing of a bias: it is filled up to whole panels."""
    extra = 2 * plan.half_columns - plan.product.columns
    return lambda bias: np.pad(bias.reshape(-1), (0, extra))
