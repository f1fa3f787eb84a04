"""The tables of docs/performance.md, and where they go."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from picture import ratio_svg

OURS = "afterglow"
FOLDER = Path(__file__).parent.parent / "docs"
PAGE = FOLDER / "performance.md"
PICTURE = FOLDER / "images" / "performance.svg"
BUSY = 3.0
"""A load above which others disturb what is measured."""
BEGIN, END = "<!-- measured begins -->", "<!-- measured ends -->"


@dataclass(frozen=True)
class Row:
    """A model on so many threads: its operations, and what each engine took."""

    model: str
    threads: int
    flops: float
    engines: dict[str, dict[str, Any]]

    @property
    def ours(self) -> dict[str, Any]:
        """Our own measurement."""
        return self.engines[OURS]

    @property
    def best_peer(self) -> dict[str, Any] | None:
        """The measurement of the fastest other engine."""
        timed = [e for name, e in self.engines.items() if name != OURS and e["min_seconds"]]
        return min(timed, key=lambda e: e["min_seconds"], default=None)

    @property
    def ratio(self) -> float | None:
        """Our time over that of the fastest other engine."""
        peer = self.best_peer
        if peer is None or not self.ours["min_seconds"]:
            return None
        return self.ours["min_seconds"] / peer["min_seconds"]


def tables(rows: Sequence[Row], peak: float) -> str:
    """Everything that is measured, as Markdown."""
    counts = sorted({row.threads for row in rows})
    parts = [_setting(rows, peak)]
    for count in counts:
        chosen = [row for row in rows if row.threads == count]
        title = f"### {count} thread{'s' if count > 1 else ''}"
        parts += [title, _times(chosen, peak), _mean(chosen)]
    parts += ["### Start and memory", _starts([row for row in rows if row.threads == counts[0]])]
    return "\n\n".join(parts)


def write_page(rows: Sequence[Row], peak: float) -> None:
    """Put the tables between the markers of the page, and draw the picture."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    text = f"{before}{BEGIN}\n{tables(rows, peak)}\n{END}{after}"
    PAGE.write_text(text, encoding="utf-8")
    bars = [(row.model, row.threads, row.ratio) for row in rows if row.ratio is not None]
    PICTURE.write_text(ratio_svg(bars), encoding="utf-8")


def _setting(rows: Sequence[Row], peak: float) -> str:
    """Machine, date and versions."""
    known = {name: e["version"] for row in rows for name, e in row.engines.items() if e["version"]}
    versions = ", ".join(f"{name} {version}" for name, version in known.items())
    today = datetime.now(UTC).strftime("%d %B %Y")
    return (
        f"Measured on {today}: {_processor()}, {os.cpu_count()} cores, "
        f"{peak:.0f} GFLOP/s a core when it does nothing but multiply and add. {versions}. "
        f"{_load()}"
    )


def _load() -> str:
    """Whether anyone else used the machine: this benchmark alone is a load of 1 or 2."""
    load = os.getloadavg()[2]
    busy = load > BUSY
    warning = " It was busy with other work: take these figures as a first look." if busy else ""
    return f"The load of the machine was {load:.1f}.{warning}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")


def _times(rows: Sequence[Row], peak: float) -> str:
    peers = [name for name in rows[0].engines if name != OURS]
    head = ["model", OURS, *peers, "ratio to the best", "GFLOP/s", "% of peak"]
    lines = []
    for row in rows:
        rate = row.ours["gflops"] or 0.0
        lines.append(
            [
                row.model,
                *(_milliseconds(row.engines[name]) for name in (OURS, *peers)),
                f"**{row.ratio:.2f}**",
                f"{rate:.0f}",
                f"{100 * rate / (peak * row.threads):.0f}",
            ]
        )
    return "Milliseconds of the fastest call.\n\n" + _markdown(head, lines)


def _mean(rows: Sequence[Row]) -> str:
    ratios = [row.ratio for row in rows if row.ratio]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"Geometric mean of the ratios: **{mean:.2f}**; the largest: {max(ratios):.2f}."


def _starts(rows: Sequence[Row]) -> str:
    head = ["model", "compile, s", "import, load, first call, ms", "peak memory, MB", "arena, MB"]
    head += ["best peer: compile, s", "import, load, first call, ms", "peak memory, MB"]
    lines = []
    for row in rows:
        peer = row.best_peer or {}
        lines.append(
            [
                row.model,
                *_start(row.ours),
                _scaled(row.ours["arena_bytes"], 1e6, "{:.2f}"),
                *_start(peer),
            ]
        )
    return _markdown(head, lines)


def _start(engine: dict[str, Any]) -> list[str]:
    parts = [engine[f"{part}_seconds"] for part in ("import", "load", "first")]
    return [
        _scaled(engine["compile_seconds"], 1, "{:.2f}"),
        " + ".join(_scaled(part, 1e-3, "{:.0f}") for part in parts),
        _scaled(engine["peak_bytes"], 1e6, "{:.0f}"),
    ]


def _milliseconds(engine: dict[str, Any]) -> str:
    return _scaled(engine["min_seconds"], 1e-3, "{:.3g}")


def _scaled(value: float | None, unit: float, form: str) -> str:
    return "–" if value is None else form.format(value / unit)  # noqa: RUF001  a dash


def _markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join([_line(head), rule, *map(_line, lines)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
