"""Sums of products in registers: some rows of x times a panel of weights, over all taps."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cpu.kernels.conv.columns import starts
from afterglow.backends.cpu.llvm.emitter import Emitter, Pointer, Value, convert
from afterglow.backends.cpu.micro.accumulate import (
    Accumulation,
    Factors,
    broadcast_step,
    even_unroll,
    fetch_panel,
)
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.backends.cpu.micro.tile import sum_type

MOST_PRODUCTS = 112
"""Multiplications in one turn of the innermost loop."""
MOST_STEPS, LEAST_STEPS = 8, 3
"""Steps along the depth in one turn of the innermost loop."""


def sums_over(
    e: Emitter,
    taps: Axes,
    rows: Sequence[Pointer],
    panel: Pointer,
    widths: Sequence[int],
    *,
    line: int | None = None,
    fetches: bool = False,
    settles: bool = False,
) -> list[Value]:
    """The sums of rows of x times a panel that has a line for each tap, row by row.

    Lines are vectors with `widths` lanes; they follow each other, or lie `line` elements apart. A
    panel that is not in a cache yet is fetched while it is read. Addresses that follow from ranged
    extents are settled: LLVM would take long.
    """
    dtype, places = sum_type(panel.dtype), starts(widths)
    apart = sum(widths) if line is None else line
    zeros = [e.constant(dtype, 0, lanes) for lanes in widths] * len(rows)
    most = max(2, min(MOST_STEPS, MOST_PRODUCTS // max(len(zeros), 1)))
    unroll = even_unroll((taps.extents or (1,))[-1], most, LEAST_STEPS)

    def load(line: Pointer) -> list[Value]:
        return [convert(line.load(start, lanes), dtype) for start, lanes in places]

    fetch = fetch_panel(e.target, apart, unroll) if fetches else None
    core = Accumulation(broadcast_step(dtype, load), unroll, fetch=fetch)
    factors = Factors(rows, panel, line=apart)
    return core.over(e, taps, factors.settled() if settles else factors, zeros)
