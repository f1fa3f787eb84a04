"""Results as a file has them, without measuring anything."""

from __future__ import annotations

from typing import Any

from benchmarks.results import Machine, Results, Row

MACHINE = Machine(
    processor="Slide rule",
    cores=2,
    day="1 May 2026",
    peak=100.0,
    cache_bytes=32 << 20,
    cache_rates={"1": 50.0, "2": 80.0},
    memory_rates={"1": 10.0, "2": 16.0},
)


def engine(seconds: float | None, **others: Any) -> dict[str, Any]:
    if seconds is None:
        return others
    times = {"min_seconds": seconds, "gflops": 1.0 / seconds, "version": "1.2"}
    starts = {"import_seconds": 0.1, "load_seconds": 0.02, "first_seconds": 0.003}
    return {**times, **starts, "peak_bytes": 5_000_000, **others}


def row(model: str, threads: int = 1, batch: int = 0, flops: float = 1e9, **engines: Any) -> Row:
    made = {name: e if isinstance(e, dict) else engine(e) for name, e in engines.items()}
    return Row(
        model,
        threads,
        batch,
        flops=flops,
        weight_bytes=40_000_000,
        io_bytes=1_000_000,
        arena_bytes=9_000_000,
        others=0.01,
        engines=made,
    )


def results(*rows: Row) -> Results:
    return Results(MACHINE, list(rows))
