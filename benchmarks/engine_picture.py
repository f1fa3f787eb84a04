"""A picture of engines: how long each takes, as a multiple of our time, over all models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from benchmarks.results import OURS, Results
from benchmarks.svg import COLOURS, legend, line, picture, text

LEFT, WIDTH, TOP = 150, 470, 52
BAR, GAP = 13, 10


class EngineTime(NamedTuple):
    """The geometric mean of an engine's times over ours, of so many models that both ran."""

    engine: str
    threads: int
    ratio: float
    models: int


def engine_times(results: Results) -> list[EngineTime]:
    """Our own, which is 1, and those of other engines, the fastest first."""
    found: dict[tuple[str, int], list[float]] = {}
    for row in results.rows:
        ratios = [(peer, row.ratio(peer)) for peer in row.peers if not row.batch]
        for peer, ratio in ratios:
            if ratio is not None:
                found.setdefault((peer, row.threads), []).append(-math.log(ratio))
    times = [
        EngineTime(peer, threads, math.exp(sum(logs) / len(logs)), len(logs))
        for (peer, threads), logs in found.items()
    ]
    ours = [EngineTime(OURS, threads, 1.0, 0) for threads in sorted({t.threads for t in times})]
    return [*ours, *sorted(times, key=lambda t: (_fastest(times, t.engine), t.engine, t.threads))]


def _fastest(times: Sequence[EngineTime], engine: str) -> float:
    return min(time.ratio for time in times if time.engine == engine)


def engine_svg(times: Sequence[EngineTime]) -> str:
    """The times as bars: shorter is faster."""
    engines = list(dict.fromkeys(time.engine for time in times))
    counts = sorted({time.threads for time in times})
    row = len(counts) * BAR + GAP
    height = TOP + len(engines) * row + 8
    scale = WIDTH / max(time.ratio for time in times)
    title = "Time of each engine, Afterglow = 1: geometric mean over models"
    parts = [text(LEFT, 20, title, "title"), *legend(counts, LEFT, 30)]
    for time in times:
        top = TOP + engines.index(time.engine) * row + counts.index(time.threads) * BAR
        parts += _bar(time, top, scale, COLOURS[counts.index(time.threads) % len(COLOURS)])
    for place, engine in enumerate(engines):
        middle = TOP + place * row + len(counts) * BAR / 2 + 3
        parts.append(text(LEFT - 8, middle, engine, anchor="end"))
    parts.append(line(LEFT + scale, TOP - 4, LEFT + scale, height - 10, "even"))
    return picture(LEFT + WIDTH + 130, height, parts)


def _bar(time: EngineTime, top: float, scale: float, colour: str) -> Iterator[str]:
    what = f"{escape(time.engine)}, {time.threads} threads: {time.ratio:.2f}"
    yield (
        f'<rect x="{LEFT}" y="{top:.0f}" width="{time.ratio * scale:.1f}" height="{BAR - 2}" '
        f'fill="{colour}"><title>{what}</title></rect>'
    )
    models = f"  ({time.models} models)" if time.models else ""
    yield text(LEFT + time.ratio * scale + 5, top + 10, f"{time.ratio:.2f}{models}")
