"""`afterglow bench`: time a model in Afterglow and in other engines."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from afterglow.cli.each import for_each_extent
from afterglow.cli.feed import build_feed, takes_inputs
from afterglow.cli.parameters import Number
from afterglow.cli.peer_model import peer_model
from afterglow.cli.progress import StageClock
from afterglow.cli.report import duration
from afterglow.cli.request import Request, takes_model, takes_state
from afterglow.cli.saved import is_given, load_saved, no_other_engine, saved_feed
from afterglow.cli.session import Session
from afterglow.driver.described import describe_options
from afterglow.driver.partitioning import check_devices
from afterglow.driver.stages import Stages
from afterglow.frontends.base import NeedsValuesError
from afterglow.report.bench import PEERS, BenchPlan, Measurement, compare
from afterglow.report.work import Work, program_work
from afterglow.runtime import TensorInfo
from afterglow.support.errors import AfterglowError, UsageError
from afterglow.support.tables import table
from afterglow.transforms.keep_state import state_pairs
from afterglow.types import Array

UNITS = {"MB": 1e6, "kB": 1e3}
NOTHING = "–"  # noqa: RUF001  a dash is what tables have


@click.command()
@takes_model
@click.option(
    "--vs",
    "peers",
    default="onnxruntime",
    show_default=True,
    metavar="NAME,…",
    help=f"The engines to compare with: {', '.join(PEERS)}; or all.",
)
@click.option(
    "--seconds",
    type=Number("SECONDS"),
    default=3.0,
    show_default=True,
    help="How long to time each engine.",
)
@takes_inputs
@click.option(
    "--peer-python",
    default=sys.executable,
    metavar="PATH",
    help="The Python interpreter that has the other engines installed.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Keep the files that other engines compile ahead of time, and reuse them.",
)
@takes_state
@for_each_extent()
def bench(session: Session, request: Request, **asked: Any) -> int:
    """Time MODEL in Afterglow and in other engines, or time a compiled model alone.

    Each engine runs in its own process. All of them load the model, then they take turns (A B C A B
    C …), and processes that wait are suspended. Only the call is timed, on inputs that are already
    in memory, with one thread unless --threads says otherwise. The error is relative to the first
    of the other engines, for which a model that is not ONNX is exported. With --state, each call of
    Afterglow begins with the values of those inputs as its state; other engines take and return
    them. The exit status is 1 if Afterglow cannot run the model.

    \b
    Examples:
      afterglow bench model.onnx --vs onnxruntime --seconds 1
      afterglow bench model.onnx --dim batch=1,8 --threads 2
    """  # noqa: D301  click keeps lines after its mark as they are
    with StageClock(session.err) as clock:
        plan = _plan(request, asked, clock)
        work = _work(request, plan)
        with ExitStack() as files:
            plan = replace(plan, peer_model=_peer_model(request, plan, files))
            found = compare(plan, clock)
    flops = 0.0 if work is None else work.flops
    data = {
        "model": request.path,
        "threads": plan.threads,
        **({"flops": None} if work is None else asdict(work)),
        "engines": [measured.data(flops) for measured in found],
    }
    session.answer(data, lambda: _show(session, found, flops))
    return 1 if found[0].problem else 0


def _plan(request: Request, asked: dict[str, Any], clock: StageClock) -> BenchPlan:
    clock("read")
    options, peers = request.options, _peers(asked["peers"])
    check_devices(options, here=True)
    if request.is_saved:
        if peers and is_given("peers"):
            raise no_other_engine(request, "--vs")
        peers = ()
    feed, outputs = _feed(request, asked)
    texts = [name for name, array in feed.items() if array.dtype == object]
    if texts:
        raise UsageError(f"input {texts[0]!r} holds strings: such models cannot be benchmarked")
    return BenchPlan(
        model=request.path,
        feed=feed,
        outputs=tuple(info.name for info in outputs),
        kept=_kept(request, feed, outputs),
        peers=peers,
        threads=options.threads or 1,
        seconds=asked["seconds"],
        python=sys.executable,
        peer_python=_peer_python(asked["peer_python"]),
        keep=asked["keep"] and asked["keep"] / Path(request.path).stem,
        options={} if request.is_saved else describe_options(options),
        ranges={} if request.is_saved else request.dim_options.ranges,
    )


def _peer_model(request: Request, plan: BenchPlan, files: ExitStack) -> str:
    """The model as other engines read it; itself if it cannot be made so, which they will say."""
    try:
        return files.enter_context(peer_model(request, plan.feed)) if plan.peers else ""
    except AfterglowError:
        return ""


def _feed(
    request: Request, asked: dict[str, Any]
) -> tuple[dict[str, Array], tuple[TensorInfo, ...]]:
    """The input arrays to run the model on, and the declared outputs."""
    inputs = asked["inputs"], asked["seed"]
    if request.is_saved:
        model = load_saved(request, "seconds", "peers")
        feed = saved_feed(model, request, *inputs)
        model.version_for(feed)  # report wrong shapes here, not in the process that is timed
        return feed, model.outputs
    source = request.source()
    feed = build_feed(request.inputs(source), request, *inputs)
    return feed, source.signature(request.options).outputs


def _kept(
    request: Request, feed: Mapping[str, Array], outputs: Sequence[TensorInfo]
) -> tuple[str, ...]:
    """The outputs that Afterglow keeps as state rather than returns."""
    pairs = state_pairs(request.options.state, [*feed], [info.name for info in outputs])
    return tuple(returned for _, returned in pairs)


def _peers(text: str) -> tuple[str, ...]:
    if text.strip() == "all":
        return PEERS
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise UsageError(f"unknown engine {unknown[0]!r}", help=f"choose from {', '.join(PEERS)}")
    return names


def _peer_python(path: str) -> str:
    if shutil.which(path) is None:
        raise UsageError(
            f"--peer-python: no such program: {path!r}",
            help="give the path of a Python interpreter that has the other engines installed",
        )
    return path


def _work(request: Request, plan: BenchPlan) -> Work | None:
    """Operations and bytes of one call, counted in the program that Afterglow would run.

    None if there is no such program: for compiled models, for those on several devices, and for
    data-dependent shapes.
    """
    if request.is_saved or request.options.devices:
        return None
    shapes = {name: array.shape for name, array in plan.feed.items()}
    stages = Stages(replace(request.options, shapes=shapes, dims={}, progress=None))
    try:
        module, _ = request.source().load(stages.options)
    except NeedsValuesError:
        return None
    return program_work(stages.plan(stages.lower(stages.optimise(module)))[0])


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
    """Afterglow's time, as a fraction of the fastest other engine's."""
    ours, *peers = found
    timed = [(peer.best, peer.engine) for peer in peers if peer.best]
    if ours.best is None or not timed:
        return ""
    best, name = min(timed)
    return f"{ours.best / best:.2f} times the time of {name}, the fastest other engine"


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
