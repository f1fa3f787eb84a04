"""Tables that several commands print."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from afterglow.passes import Timing
from afterglow.runtime import MemoryReport
from afterglow.support.durations import duration as duration
from afterglow.support.tables import table


def stage_table(seconds: Mapping[str, float]) -> Table:
    """The time of each stage, and their total."""
    rows = table("stage", "time", right=("time",))
    for stage, spent in seconds.items():
        rows.add_row(stage, duration(spent))
    rows.add_section()
    rows.add_row("total", duration(sum(seconds.values())))
    return rows


def memory_table(report: MemoryReport, total_bytes: int) -> Table:
    """The memory of a compiled model; `total_bytes` is the arena if no buffers shared memory."""
    rows = table("memory", "bytes", right=("bytes",))
    for name, count in (
        ("arena", report.arena_bytes),
        ("arena, lower bound", report.lower_bound_bytes),
        ("arena without sharing", total_bytes),
        ("scratch, all threads", report.thread_bytes),
        ("weights", report.weight_bytes),
        ("code", report.code_bytes),
        ("inputs and outputs", report.io_bytes),
    ):
        rows.add_row(name, f"{count:,}")
    if report.least_io_bytes != report.io_bytes:
        rows.add_row("inputs and outputs, smallest", f"{report.least_io_bytes:,}")
    return rows


def pass_table(timing: Timing) -> Table:
    """The number of runs and the total time of each pass."""
    rows = table("pass", "runs", "time", right=("runs", "time"))
    for name, spent in timing.seconds.items():
        rows.add_row(name, str(timing.runs[name]), duration(spent))
    rows.add_section()
    rows.add_row("total", str(sum(timing.runs.values())), duration(sum(timing.seconds.values())))
    return rows
