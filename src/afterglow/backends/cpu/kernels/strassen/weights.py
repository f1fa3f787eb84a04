"""The right factors: sums of quarters of a constant, in panels."""

from __future__ import annotations

import numpy as np

from afterglow.backends.cpu.kernels.strassen.plan import PRODUCTS, StrassenPlan
from afterglow.backends.cpu.llvm.emitter import Pointer
from afterglow.backends.cpu.micro.kernel import Pack, Phase
from afterglow.types import Array

LINES = 32
"""Lines of both halves of the depth that are summed at once: temporary arrays stay in caches."""


def pack_factors(plan: StrassenPlan) -> Pack:
    """The packing of rhs: by panel, product, depth, then column.

    Sums are made in float64 and rounded once.
    """
    product, depth, columns = plan.product, plan.half_depth, plan.half_columns

    def pack(rhs: Array) -> Array:
        matrix = rhs.reshape(product.columns, product.depth).T if product.by_columns else rhs
        whole = np.zeros((2, depth, 2, columns), np.float32)
        lines = whole.reshape(2 * depth, 2 * columns)
        lines[: product.depth, : product.columns] = matrix
        packed = np.empty((plan.panels, PRODUCTS, depth, plan.tile.columns), np.float32)
        for start in range(0, depth, LINES):
            some = slice(start, min(start + LINES, depth))
            for number, factor in enumerate(_factors(whole[:, some].astype(np.float64))):
                by_panel = factor.reshape(-1, plan.panels, plan.tile.columns)
                packed[:, number, some] = by_panel.swapaxes(0, 1)
        return with_panels(packed, whole) if plan.is_ranged else packed

    return pack


SUMS = (0, 3, 5, 6)
"""The products whose right factors are no quarters."""


def with_panels(factors: Array, whole: Array) -> Array:
    """All panels of rhs, which have the quarters in them, then the other right factors."""
    panels, _, depth, width = factors.shape
    cut = whole.reshape(2 * depth, 2 * panels, width).swapaxes(0, 1)
    return np.concatenate([cut.reshape(-1), factors[:, SUMS].reshape(-1)])


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


def _factors(b: Array) -> tuple[Array, ...]:
    """The factors in the order of the products, of lines [2, lines, 2, columns] of both halves."""
    b11, b12, b21, b22 = b[0, :, 0], b[0, :, 1], b[1, :, 0], b[1, :, 1]
    t1 = b12 - b11
    t2 = b22 - t1
    return t1, b11, b21, t2, b22, b22 - b12, b21 - t2


def pack_bias(plan: StrassenPlan) -> Pack:
    """The packing of a bias: it is filled up to whole panels."""
    extra = 2 * plan.half_columns - plan.product.columns
    return lambda bias: np.pad(bias.reshape(-1), (0, extra))
