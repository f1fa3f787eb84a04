"""The right factors: sums of quarters of a constant, in panels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.backends.cpu.kernels.strassen.plan import PRODUCTS, StrassenPlan
from afterglow.backends.cpu.llvm.emitter import Pointer
from afterglow.backends.cpu.micro.kernel import Pack, Phase
from afterglow.types import Array

LINES = 32
"""Lines of both halves of the depth that are summed at once: temporary arrays stay in caches."""


SUMS = (0, 3, 5, 6)
"""The products whose right factors are no quarters."""
QUARTERS = {1: (0, 0), 2: (1, 0), 4: (1, 1)}
"""The others, and which half of the depth and of the columns they take."""


def pack_factors(plan: StrassenPlan) -> Pack:
    """The packing of rhs: by panel, product, depth, then column.

    For a ranged number of rows it is all panels of rhs, which have the quarters in them, then the
    other right factors, by panel. Sums are made in float64 and rounded once.
    """
    product, depth, panels = plan.product, plan.half_depth, plan.panels

    def pack(rhs: Array) -> Array:
        matrix = rhs.reshape(product.columns, product.depth).T if product.by_columns else rhs
        whole = np.zeros((2, depth, 2, panels, plan.tile.columns), np.float32)
        lines = whole.reshape(2 * depth, -1)
        lines[: product.depth, : product.columns] = matrix
        # panels come first, as in what is made
        halves = whole.transpose(0, 2, 3, 1, 4)
        if not plan.is_ranged:
            packed = np.empty((panels, PRODUCTS, depth, plan.tile.columns), np.float32)
            for number, quarter in QUARTERS.items():
                packed[:, number] = halves[quarter]
            _write_sums(halves, [packed[:, number] for number in SUMS])
            return packed
        both = np.empty(2 * whole.size, np.float32)
        both[: whole.size].reshape(2, panels, 2, depth, -1)[:] = halves.transpose(1, 2, 0, 3, 4)
        sums = both[whole.size :].reshape(panels, len(SUMS), depth, -1)
        _write_sums(halves, [sums[:, number] for number in range(len(SUMS))])
        return both

    return pack


def _write_sums(halves: Array, to: Sequence[Array]) -> None:
    """Write the right factors that are sums, in the order of their products.

    The first and the third are differences of two numbers, which float32 rounds alike.
    """
    (b11, b12), (b21, b22) = halves
    np.subtract(b12, b11, out=to[0])
    np.subtract(b22, b12, out=to[2])
    for start in range(0, b11.shape[1], LINES):
        some = np.s_[:, start : start + LINES]
        t2 = b22[some] - (b12[some].astype(np.float64) - b11[some])
        to[1][some] = t2
        to[3][some] = b21[some] - t2


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
