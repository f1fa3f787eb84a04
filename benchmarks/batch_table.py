"""The table of batches: does the time grow as the work does?"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.markdown import NOTHING, milliseconds, table
from benchmarks.results import Case, engines_of

INTRODUCTION = (
    "Milliseconds per item, by batch size; in parentheses, the time of the batch divided by that "
    "of as many single items: below 1, the batch is cheaper."
)


def batch_table(cases: Sequence[Case]) -> str:
    """A line for each model, number of threads and engine; a column for each batch."""
    batches = sorted({case.row.batch for case in cases})
    lines = []
    for model, threads in dict.fromkeys((case.row.model, case.row.threads) for case in cases):
        chosen = {c.row.batch: c for c in cases if (c.row.model, c.row.threads) == (model, threads)}
        for name in engines_of(list(chosen.values())):
            times = {batch: _per_item(case, name) for batch, case in chosen.items()}
            cells = [_cell(times.get(batch), times.get(1)) for batch in batches]
            lines.append([model, str(threads), name, *cells])
    head = ["model", "threads", "engine", *map(str, batches)]
    return f"{INTRODUCTION}\n\n{table(head, lines, words=3)}"


def _per_item(case: Case, name: str) -> float | None:
    seconds = case.engines.get(name, {}).get("min_seconds")
    return seconds / case.row.batch if seconds else None


def _cell(seconds: float | None, alone: float | None) -> str:
    if seconds is None:
        return NOTHING
    ratio = f" ({seconds / alone:.2f})" if alone and seconds is not alone else ""
    return f"{milliseconds(seconds)}{ratio}"
