"""docs/performance.md and its pictures, made of stored results.

    python -m benchmarks.page [--results FILE] [--page FOLDER]

The text around the markers is that of docs/performance.md, wherever the page goes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.batch_table import batch_table
from benchmarks.engine_picture import engine_svg, engine_times
from benchmarks.floor import floor_table, intensity
from benchmarks.markdown import NOTHING, milliseconds, plural, scaled, table
from benchmarks.picture import ratio_svg
from benchmarks.results import DEFAULT, OURS, WRONG, Case, Results, engines_of, load, threads_of
from benchmarks.roofline import Dot, Roof, roofline_svg

DOCS = Path(__file__).parent.parent / "docs"
PAGE = "performance.md"
BEGIN, END = "<!-- measured begins -->", "<!-- measured ends -->"
BUSY = 0.1
"""A share of the machine above which others disturb what is measured."""


def tables(results: Results) -> str:
    """Everything that was measured, as Markdown."""
    cases = results.cases()
    parts = [_setting(results)]
    for count in threads_of(cases):
        chosen = [case for case in cases if case.row.threads == count]
        parts += [f"### {plural(count, 'thread')}", _times(chosen), _mean(chosen)]
        parts += [floor_table(chosen, results.machine)]
    parts += ["### Startup and memory", _starts([c for c in cases if c.row.threads == 1] or cases)]
    batched = results.cases(batched=True)
    if batched:
        parts += ["### Batches", batch_table(batched)]
    parts += ["### Errors of the outputs", _distances(cases), *_notes(cases), *_failures(cases)]
    return "\n\n".join(parts)


def write_page(results: Results, folder: Path) -> None:
    """Write the page and its pictures into a folder."""
    before, rest = (DOCS / PAGE).read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    text = f"{before}{BEGIN}\n{tables(results)}\n{END}{after}"
    (folder / PAGE).write_text(text, encoding="utf-8")
    bars = [(c.row.model, c.row.threads, c.best[0]) for c in results.cases() if c.best]
    (images / "performance.svg").write_text(ratio_svg(bars), encoding="utf-8")
    (images / "engines.svg").write_text(engine_svg(engine_times(results)), encoding="utf-8")
    (images / "roofline.svg").write_text(_roofline(results), encoding="utf-8")


def _roofline(results: Results) -> str:
    """The picture for the least number of threads."""
    cases = results.cases()
    least = threads_of(cases)[0]
    machine, rows = results.machine, [c.row for c in cases if c.row.threads == least]
    dots = [
        Dot(row.model, intensity(row), row.ours["gflops"])
        for row in rows
        if row.ours.get("gflops") and intensity(row)
    ]
    roofs = [
        Roof(name, rates[str(least)])
        for name, rates in (("cache", machine.cache_rates), ("memory", machine.memory_rates))
        if str(least) in rates
    ]
    title = f"Afterglow on {plural(least, 'core')}, and what that can do"
    return roofline_svg(title, dots, machine.peak * least, roofs)


def _setting(results: Results) -> str:
    """Machine, date and versions."""
    machine, cases = results.machine, results.cases()
    known = {
        name: engine["version"]
        for case in cases
        for name, engine in case.engines.items()
        if engine.get("version")
    }
    versions = ", ".join(f"{name} {version}" for name, version in known.items())
    return (
        f"Measured on {machine.day}: {machine.processor}, {plural(machine.cores, 'core')}, "
        f"peak of {machine.peak:.0f} GFLOP/s per core, "
        f"{_rates('the last-level cache', machine.cache_rates)}, "
        f"{_rates('memory', machine.memory_rates)}. {versions}. {_others(results)}"
    )


def _rates(place: str, rates: dict[str, float]) -> str:
    shown = " and ".join(f"{rate:.0f}" for rate in rates.values())
    threads = " and ".join(rates)
    return f"{shown} GB/s from {place} on {threads} cores"


def _others(results: Results) -> str:
    """How much the machine was disturbed."""
    shares = sorted(row.others for row in results.rows)
    middle, most = shares[len(shares) // 2], shares[-1]
    warning = " These figures are not reliable." if middle > BUSY else ""
    return (
        f"Other processes used {middle:.0%} of the machine (median), at most {most:.0%}.{warning}"
    )


def _times(cases: Sequence[Case]) -> str:
    names = engines_of(cases)
    lines = []
    for case in cases:
        best = case.best
        ratio = f"**{best[0]:.2f}**" if best else NOTHING
        cells = [_time(case, name, best and best[1]) for name in names]
        lines.append([case.row.model, *cells, ratio])
    head = ["model", *names, "ratio to the best"]
    return f"Milliseconds per call, fastest call.\n\n{table(head, lines)}"


def _time(case: Case, name: str, best: str | None) -> str:
    """A time; what was not computed right has a mark, and the fastest peer is bold."""
    engine = case.engines.get(name, {})
    shown = milliseconds(engine.get("min_seconds"))
    if engine.get("relative_error", 0.0) > WRONG and name != OURS:
        return f"{shown}!"
    return f"**{shown}**" if name == best else shown


def _mean(cases: Sequence[Case]) -> str:
    ratios = [case.best[0] for case in cases if case.best]
    if not ratios:
        return "No other engine was timed."
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"Geometric mean of the ratios: **{mean:.2f}**; the largest: {max(ratios):.2f}."


def _starts(cases: Sequence[Case]) -> str:
    head = ["model", "compile, s", "import, load, first call, ms", "peak memory, MB", "arena, MB"]
    head += ["best other engine: compile, s", "import, load, first call, ms", "peak memory, MB"]
    lines = []
    for case in cases:
        peer = case.engines[case.best[1]] if case.best else {}
        arena = scaled(case.row.ours.get("arena_bytes"), 1e6, "{:.2f}")
        lines.append([case.row.model, *_start(case.row.ours), arena, *_start(peer)])
    return table(head, lines)


def _start(engine: dict[str, Any]) -> list[str]:
    parts = [engine.get(f"{part}_seconds") for part in ("import", "load", "first")]
    return [
        scaled(engine.get("compile_seconds"), 1, "{:.2f}"),
        " + ".join(scaled(part, 1e-3, "{:.0f}") for part in parts),
        scaled(engine.get("peak_bytes"), 1e6, "{:.0f}"),
    ]


def _distances(cases: Sequence[Case]) -> str:
    """The largest over the numbers of threads."""
    names, lines = engines_of(cases), []
    for model in dict.fromkeys(case.row.model for case in cases):
        chosen = [case for case in cases if case.row.model == model]
        cells = [_distance(chosen, name) for name in names]
        lines.append([model, *cells])
    return (
        "The largest difference from the outputs of the reference (*ref*), divided by the largest "
        f"output. Above {WRONG} the results of an engine count as wrong: its time is marked (!), "
        f"and is not compared with.\n\n{table(['model', *names], lines)}"
    )


def _distance(cases: Sequence[Case], name: str) -> str:
    engines = [case.engines[name] for case in cases if name in case.engines]
    ran = [engine for engine in engines if engine.get("min_seconds")]
    if not ran:
        return NOTHING
    found = [e["relative_error"] for e in ran if "relative_error" in e]
    if found:
        return f"{max(found):.0e}"
    return NOTHING if name == OURS else "ref"


def _notes(cases: Sequence[Case]) -> Iterator[str]:
    """What engines say of how they compiled."""
    notes: dict[str, set[str]] = {}
    for case in cases:
        for name, engine in case.engines.items():
            if engine.get("note"):
                notes.setdefault(name, set()).add(engine["note"])
    if notes:
        shown = "; ".join(f"{name}: {' or '.join(sorted(notes[name]))}" for name in notes)
        yield f"Compiled with: {shown}."


def _failures(cases: Sequence[Case]) -> Iterator[str]:
    """Which engines ran which models not, and why."""
    models: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        for name, engine in case.engines.items():
            if engine.get("problem"):
                models.setdefault((name, _reason(engine)), []).append(case.row.model)
    if models:
        lines = [
            [name, ", ".join(dict.fromkeys(found)), reason.replace("|", "\\|")]
            for (name, reason), found in models.items()
        ]
        yield "### Models that did not run"
        yield table(["engine", "models", "reason"], lines, words=3)


def _reason(engine: dict[str, Any]) -> str:
    """A problem, and what to type against it, whichever Python it was."""
    help = re.sub(r"\S+ -m pip", "pip", engine.get("help", ""))
    return f"{engine['problem']}: {help}" if help else str(engine["problem"])


@click.command()
@click.option("--results", default=DEFAULT, type=click.Path(path_type=Path), show_default=True)
@click.option("--page", default=DOCS, type=click.Path(path_type=Path), show_default=True)
def main(results: Path, page: Path) -> None:
    """Write the page anew, without measuring."""
    stored = load(results)
    if stored is None or not stored.rows:
        raise click.ClickException(f"{results} has no results; python -m benchmarks.run makes some")
    write_page(stored, page)


if __name__ == "__main__":
    main()
