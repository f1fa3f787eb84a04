"""`afterglow bench`: how fast a model is, here and on other engines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click
from rich.table import Table

from afterglow.cli.feed import build_feed, takes_inputs
from afterglow.cli.progress import StageClock
from afterglow.cli.report import duration
from afterglow.cli.request import Request, takes_model
from afterglow.cli.session import Session, table
from afterglow.driver.stages import Stages
from afterglow.report.bench import PEERS, Measurement, Plan, compare
from afterglow.report.flops import program_flops
from afterglow.support.errors import UsageError

UNITS = {"MB": 1e6, "kB": 1e3}
NOTHING = "–"  # noqa: RUF001  a dash is what tables have


@click.command(short_help="Time a model, also on other engines.")
@takes_model
@click.option(
    "--vs",
    "peers",
    default="onnxruntime",
    show_default=True,
    metavar="NAME,…",
    help=f"The engines to compare with: {', '.join(PEERS)}.",
)
@click.option("--seconds", default=3.0, show_default=True, help="Time each engine for so long.")
@takes_inputs
@click.option(
    "--peer-python", default=sys.executable, metavar="PATH", help="A Python that has the peers."
)
def bench(session: Session, request: Request, **asked: Any) -> int:
    """Time MODEL, and the same model on other engines.

    Each engine has a process of its own. All load the model, then they take turns: A B C A B C …
    Whoever waits is frozen. Timed is the call alone, on inputs that are there already. By default
    one thread runs it. The error is the distance from the first of the other engines.
    """
    with StageClock(session.err) as clock:
        plan = _plan(request, asked, clock)
        flops = _flops(request, plan)
        found = compare(plan, clock)
    data = {
        "model": request.path,
        "threads": plan.threads,
        "flops": flops,
        "engines": [measured.data(flops) for measured in found],
    }
    session.answer(data, lambda: _show(session, found, flops))
    return 0


def _plan(request: Request, asked: dict[str, Any], clock: StageClock) -> Plan:
    clock("read")
    options = request.options
    signature = request.source().signature(options)
    feed = build_feed(signature.inputs, options, asked["inputs"], asked["seed"])
    texts = [name for name, array in feed.items() if array.dtype == object]
    if texts:
        raise UsageError(f"input {texts[0]!r} holds texts: such models are not compared")
    return Plan(
        model=request.path,
        feed=feed,
        outputs=tuple(info.name for info in signature.outputs),
        peers=_peers(asked["peers"]),
        threads=options.threads or 1,
        seconds=asked["seconds"],
        python=sys.executable,
        peer_python=asked["peer_python"],
    )


def _peers(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise UsageError(f"no engine {unknown[0]!r}", help=f"there are {', '.join(PEERS)}")
    return names


def _flops(request: Request, plan: Plan) -> float:
    """The operations of one call, counted in the program that we would run."""
    shapes = {name: array.shape for name, array in plan.feed.items()}
    stages = Stages(replace(request.options, shapes=shapes, dims={}, progress=None))
    module, _ = request.source().load(stages.options)
    return program_flops(stages.plan(stages.lower(stages.optimise(module)))[0])


def _show(session: Session, found: Sequence[Measurement], flops: float) -> None:
    session.show(_time_table(found, flops))
    session.show(_start_table(found))
    for measured in found:
        if measured.problem:
            help = f"; try {measured.help}" if measured.help else ""
            session.say(f"{measured.engine}: {measured.problem}{help}")
    verdict = _verdict(found)
    if verdict:
        session.say(verdict, "bold")


def _verdict(found: Sequence[Measurement]) -> str:
    """Our time, as a share of the fastest peer's."""
    ours, *peers = found
    timed = [(peer.best, peer.engine) for peer in peers if peer.best]
    if ours.best is None or not timed:
        return ""
    best, name = min(timed)
    return f"{ours.best / best:.2f} of the time of {name}, the fastest of the others"


def _time_table(found: Sequence[Measurement], flops: float) -> Table:
    numbers = ("min", "p50", "p90", "p99", "calls", "GFLOP/s", "error")
    rows = table("engine", "version", *numbers, right=numbers)
    for measured in found:
        spread = [measured.percentile(percent) for percent in (50, 90, 99)]
        rate = measured.gflops(flops)
        rows.add_row(
            measured.engine,
            measured.version or NOTHING,
            *(_time(seconds) for seconds in (measured.best, *spread)),
            str(len(measured.times)) if measured.times else NOTHING,
            NOTHING if rate is None else f"{rate:.1f}",
            NOTHING if measured.error is None else f"{measured.error:.1g}",
        )
    return rows


def _start_table(found: Sequence[Measurement]) -> Table:
    numbers = ("compile", "import", "load", "first call", "peak memory", "arena")
    rows = table("engine", *numbers, right=numbers)
    for measured in found:
        rows.add_row(
            measured.engine,
            _time(measured.compile_seconds),
            _time(measured.import_seconds),
            _time(measured.load_seconds),
            _time(measured.first_seconds),
            _size(measured.peak_bytes),
            _size(measured.arena_bytes),
        )
    return rows


def _time(seconds: float | None) -> str:
    return NOTHING if seconds is None else duration(seconds)


def _size(count: int | None) -> str:
    if count is None:
        return NOTHING
    for unit, size in UNITS.items():
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
