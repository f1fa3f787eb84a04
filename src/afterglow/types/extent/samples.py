"""A few runs that stand for all runs of a program for ranges."""

from __future__ import annotations

from collections.abc import Iterable

from afterglow.types.extent import Dim, Extents


def sample_extents(dims: Iterable[Dim]) -> list[Extents]:
    """The largest extents, the smallest, some between, and large ones together with small ones.

    Without dimensions, there is one run.
    """
    ordered = sorted({*dims}, key=lambda dim: dim.name)
    runs = [
        {dim.name: dim.high for dim in ordered},
        {dim.name: dim.low for dim in ordered},
        {dim.name: _between(dim) for dim in ordered},
        {dim.name: (dim.low, dim.high)[place % 2] for place, dim in enumerate(ordered)},
        {dim.name: (dim.high, dim.low)[place % 2] for place, dim in enumerate(ordered)},
    ]
    return [run for place, run in enumerate(runs) if run not in runs[:place]]


def run_text(extents: Extents) -> str:
    """The extents of a run in words: `s = 1, b = 4`."""
    return ", ".join(f"{name} = {extent}" for name, extent in extents.items())


def _between(dim: Dim) -> int:
    low, high = dim.bounds
    return (low + (high - low) // 3) * dim.step
