"""The table of a grid: milliseconds, ratios to the best other engine, and their means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from afterglow.report.bench.engine_process.registry import OURS
from benchmarks.many_cores.grid import Cell

WRONG = 1e-3
"""Relative error of an engine that is remarked."""


def ratio(cells: Iterable[Cell]) -> float | None:
    """Our time as a part of the fastest other engine's; None where one is missing."""
    times = {cell.engine: cell.best for cell in cells}
    ours = times.pop(OURS, None)
    others = [best for best in times.values() if best]
    return ours / min(others) if ours and others else None


def span(cells: Iterable[Cell]) -> tuple[float, float] | None:
    """The least and the largest of that ratio, of each round for itself; None if none is whole."""
    times = {cell.engine: [min(turn) for turn in cell.turns] for cell in cells if cell.turns}
    ours, others = times.pop(OURS, []), list(zip(*times.values(), strict=False))
    rounds = [each / min(best) for each, best in zip(ours, others, strict=False)]
    return (min(rounds), max(rounds)) if rounds else None


def model_lines(cells: Sequence[Cell]) -> Iterator[str]:
    """A line for each number of threads of a model, and what is wrong."""
    for count in sorted({cell.threads for cell in cells}):
        row = [cell for cell in cells if cell.threads == count]
        times = "  ".join(f"{cell.engine} {_milliseconds(cell)}" for cell in row)
        yield f"{row[0].model:20} t{count:<3} {times}{_ratios(row)}"
    digests = {cell.digest for cell in cells if cell.engine == OURS and cell.digest}
    if len(digests) > 1:
        yield f"{cells[0].model}: THE BITS DEPEND ON THE NUMBER OF THREADS"
    for cell in cells:
        if cell.problem:
            yield f"{cell.model} t{cell.threads} {cell.engine}: {cell.problem}"


def _ratios(row: Sequence[Cell]) -> str:
    """The ratio of a row, its span over the rounds, and how many turns had slow cores."""
    part, ends = ratio(row), span(row)
    if part is None or ends is None:
        return ""
    slow = sum(cell.slow_turns for cell in row)
    noted = f", {slow} slow turns" if slow else ""
    return f"  {part:.2f} ({ends[0]:.2f} to {ends[1]:.2f}{noted})"


def summary(cells: Sequence[Cell]) -> Iterator[str]:
    """Ratios of every model by number of threads, and geometric means."""
    counts = sorted({cell.threads for cell in cells})
    found: dict[str, dict[int, float]] = {}
    for cell in cells:
        row = [c for c in cells if (c.model, c.threads) == (cell.model, cell.threads)]
        part = ratio(row)
        if part is not None:
            found.setdefault(cell.model, {})[cell.threads] = part
    yield f"{'time / best other':20}" + "".join(f"{f't{count}':>7}" for count in counts)
    for model, parts in found.items():
        yield _line(model, [parts.get(count) for count in counts])
    for title, models in _groups(found):
        means = [_mean([found[m][count] for m in models if count in found[m]]) for count in counts]
        yield _line(title, means)
    ran = [cell for cell in cells if cell.turns]
    spreads = sorted(cell.spread for cell in ran) or [1.0]
    yield (
        f"slowest turn / fastest: middle {spreads[len(spreads) // 2]:.2f}, most {spreads[-1]:.2f}; "
        f"{sum(cell.repeated for cell in ran)} turns repeated, "
        f"{sum(cell.slow_turns for cell in ran)} on slow cores"
    )


def _groups(found: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Models whose means are told: of one item in floats, in bytes, and batches."""
    names = list(found)
    bytes_ = [name for name in names if name.endswith("_int8")]
    batches = [name for name in names if name.rpartition("-")[2].isdigit()]
    floats = [name for name in names if name not in bytes_ and name not in batches]
    for title, group in (("floats", floats), ("int8", bytes_), ("batches", batches)):
        if group:
            yield f"mean of {title}", group


def _mean(parts: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, parts)) / len(parts)) if parts else None


def _line(title: str, parts: Iterable[float | None]) -> str:
    return f"{title:20}" + "".join(f"{'-' if p is None else f'{p:.2f}':>7}" for p in parts)


def _milliseconds(cell: Cell) -> str:
    best = cell.best
    if best is None:
        return "-"
    error = f" (error {cell.error:.0e})" if (cell.error or 0.0) > WRONG else ""
    return f"{best * 1e3:.3f}{error}"
