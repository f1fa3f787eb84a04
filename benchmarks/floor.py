"""How near a time is to what the machine can do: operations over peak, bytes over bandwidth."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.markdown import NOTHING, milliseconds, scaled, table
from benchmarks.results import Case, Machine, Row

HEAD = (
    *("model", "GFLOP", "weights, inputs, outputs, MB", "through the arena, MB", "FLOP/byte"),
    *("GFLOP/s", "% of peak", "floor, ms", "bound by", "time / floor"),
)


def intensity(row: Row) -> float:
    """Operations for each byte of weights, inputs, outputs and arena."""
    moved = row.weight_bytes + row.io_bytes + row.arena_bytes
    return row.flops / moved if moved else 0.0


def floor(row: Row, machine: Machine) -> tuple[float, str]:
    """Seconds that it takes to compute, or to read and write what lies outside; and which it is.

    Weights, inputs and outputs that fit in the last cache are there from the run before.
    """
    outside = row.weight_bytes + row.io_bytes
    cached = outside <= machine.cache_bytes
    rates = machine.cache_rates if cached else machine.memory_rates
    rate = rates.get(str(row.threads)) or max(rates.values(), default=0.0)
    moving = outside / (rate * 1e9) if rate else 0.0
    computing = row.flops / (machine.peak * row.threads * 1e9)
    if moving > computing:
        return moving, "cache" if cached else "memory"
    return computing, "arithmetic"


def floor_table(cases: Sequence[Case], machine: Machine) -> str:
    """A line for each model."""
    return table(HEAD, [_line(case.row, machine) for case in cases])


def _line(row: Row, machine: Machine) -> list[str]:
    rate, seconds = row.ours.get("gflops"), row.ours.get("min_seconds")
    least, bound = floor(row, machine)
    return [
        row.model,
        f"{row.flops / 1e9:.3g}",
        f"{(row.weight_bytes + row.io_bytes) / 1e6:.3g}",
        f"{row.arena_bytes / 1e6:.3g}",
        f"{intensity(row):.1f}",
        scaled(rate, 1, "{:.0f}"),
        scaled(rate, machine.peak * row.threads / 100, "{:.0f}"),
        milliseconds(least),
        bound,
        f"{seconds / least:.2f}" if seconds and least else NOTHING,
    ]
