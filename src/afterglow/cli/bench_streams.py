"""`afterglow bench --streams`: how many requests a second several streams answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click
from rich.table import Table

from afterglow.cli.progress import StageClock
from afterglow.cli.report import duration
from afterglow.cli.saved import is_given
from afterglow.cli.session import Session
from afterglow.report.bench import BenchPlan, Measurement, compare_streams
from afterglow.runtime.native.machine import usable_cores
from afterglow.runtime.threads import MOST_THREADS
from afterglow.support.errors import UsageError
from afterglow.support.tables import table

AUTO = "auto"
"""Stands for every number that divides the threads."""
_OTHERS = {"peers": "--vs", "clients": "--clients", "save": "--save", "against": "--against"}
"""Options that have no meaning for streams."""
_PERCENTILES = (50, 90, 99)


class StreamCounts(click.ParamType[tuple[int, ...]]):
    """Numbers of streams: `2`, `2,4`, or `auto`, which is none of them yet."""

    name = "N,…|auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        """The parsed numbers."""
        if str(value).strip() == AUTO:
            return ()
        counts = [part.strip() for part in str(value).split(",")]
        if not all(part.isdecimal() and 0 < int(part) <= MOST_THREADS for part in counts):
            raise UsageError(
                f"{value!r} are no numbers of streams", help="write --streams 4, or --streams auto"
            )
        return tuple(dict.fromkeys(map(int, counts)))


def check_alone() -> None:
    """Raise if an option was given that cannot be beside --streams."""
    for name, option in _OTHERS.items():
        if is_given(name):
            raise UsageError(
                f"{option} cannot be given with --streams",
                help="streams of Afterglow are compared with each other, a client for each",
            )


def bench_streams(
    session: Session, plan: BenchPlan, counts: Sequence[int], threads: int | None, clock: StageClock
) -> int:
    """Time numbers of streams, one among them, that divide the threads; all cores unless said."""
    total = threads or usable_cores()
    wanted = sorted({1, *(counts or _divisors(total))})
    found = compare_streams(replace(plan, threads=total), wanted, clock)
    pairs = list(zip(wanted, found, strict=True))
    best = max(pairs, key=lambda pair: pair[1].throughput() or 0.0)[0]
    rows = [_data(count, measured) for count, measured in pairs]
    data = {"model": plan.model, "threads": total, "streams": rows, "best": best}
    session.answer(data, lambda: _show(session, pairs, best))
    return 1 if any(measured.problem for measured in found) else 0


def _divisors(number: int) -> list[int]:
    return [count for count in range(1, number + 1) if number % count == 0]


def _data(count: int, measured: Measurement) -> dict[str, Any]:
    return {
        "streams": count,
        "threads": measured.threads,
        "calls_per_second": measured.throughput(),
        **{f"p{percent}_seconds": measured.percentile(percent) for percent in _PERCENTILES},
        "problem": measured.problem or None,
    }


def _show(session: Session, pairs: Sequence[tuple[int, Measurement]], best: int) -> None:
    session.show(_table(pairs))
    for count, measured in pairs:
        if measured.problem:
            session.say(f"streams {count}: {measured.problem}")
    rates = {count: measured.throughput() for count, measured in pairs}
    one, most = rates[1], rates[best]
    if one and most:
        what = "1 stream is best" if best == 1 else f"{best} streams are best"
        session.say(f"{what}: {most / one:.2f} times the requests of one stream", "bold")


def _table(pairs: Sequence[tuple[int, Measurement]]) -> Table:
    numbers = ("streams", "threads", "calls/s", *(f"p{percent}" for percent in _PERCENTILES))
    rows = table(*numbers, right=numbers)
    for count, measured in pairs:
        rate = measured.throughput()
        times = [measured.percentile(percent) for percent in _PERCENTILES]
        rows.add_row(
            str(count),
            str(measured.threads),
            "-" if rate is None else f"{rate:,.1f}",
            *("-" if seconds is None else duration(seconds) for seconds in times),
        )
    return rows
