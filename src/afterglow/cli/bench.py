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

from afterglow.cli.batches import takes_batches
from afterglow.cli.bench_streams import StreamCounts, bench_streams, check_alone
from afterglow.cli.destination import BENCH, file_for, takes_force
from afterglow.cli.each import for_each_extent
from afterglow.cli.feed import build_feed, takes_inputs
from afterglow.cli.parameters import Number
from afterglow.cli.peer_model import peer_model
from afterglow.cli.progress import StageClock
from afterglow.cli.report import duration
from afterglow.cli.request import Request, takes_model, takes_state
from afterglow.cli.saved import is_given, load_saved, no_other_engine, saved_feed
from afterglow.cli.session import Session
from afterglow.cli.verb_command import VerbCommand
from afterglow.driver.backends import check_devices
from afterglow.driver.described import describe_options
from afterglow.driver.stages import Stages
from afterglow.frontends.base import NeedsValuesError
from afterglow.report.bench import PEERS, BenchPlan, Measurement, compare
from afterglow.report.bench.former import (
    Difference,
    difference,
    machine,
    read_result,
    result_text,
)
from afterglow.report.work import Work, program_work
from afterglow.runtime import TensorInfo
from afterglow.support.errors import AfterglowError, UsageError, warn
from afterglow.support.tables import table
from afterglow.transforms.keep_state import state_pairs
from afterglow.types import Array

UNITS = {"MB": 1e6, "kB": 1e3}
NOTHING = "–"  # noqa: RUF001  a dash is what tables have


@click.command(cls=VerbCommand)
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
@click.option(
    "--warmup",
    type=Number("SECONDS"),
    help="How long to run each engine before it is timed.",
)
@click.option(
    "--clients",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Threads that call the model at the same time.",
)
@click.option(
    "--streams",
    type=StreamCounts(),
    help="Compare numbers of calls that have cores of their own at the same time.",
)
@click.option("--save", metavar="FILE.json", help="Write the result, to compare with it later.")
@click.option(
    "--against", metavar="FILE.json", help="Compare Afterglow with a result saved before."
)
@click.option(
    "--fail-above",
    type=Number("PERCENT"),
    help="Exit with 1 if Afterglow is slower than before by more than this, beyond noise.",
)
@takes_force
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
@takes_batches
@for_each_extent("--save", "--against")
def bench(session: Session, request: Request, **asked: Any) -> int:
    """Time MODEL in Afterglow and in other engines, or time a compiled model alone.

    Each engine runs in its own process. All of them load the model, then they take turns (A B C A B
    C …), and processes that wait are suspended. Only the call is timed, on inputs that are already
    in memory, with one thread unless --threads says otherwise. The error is relative to the first
    of the other engines, for which a model that is not ONNX is exported. With --state, each call of
    Afterglow begins with the values of those inputs as its state; other engines take and return
    them.

    With --clients, several threads call the model at once: latencies are those of single calls,
    and throughput is that of all together. With --streams, Afterglow alone is timed: so many
    streams divide the threads (all cores unless --threads says otherwise), with a client for each,
    and one stream with all threads; auto tries every number that divides them.

    With --against, the medians of turns are compared with those of a saved result, and a difference
    counts only if its 95 % interval leaves out zero. The exit status is 1 if Afterglow cannot run
    the model, or is too slow for --fail-above.

    \b
    Examples:
      afterglow bench model.onnx --vs onnxruntime --seconds 1
      afterglow bench model.onnx --dim batch=1,8 --threads 2
      afterglow bench model.onnx --clients 4 --save before.json
      afterglow bench model.onnx --streams auto
      afterglow bench model.onnx --against before.json --fail-above 5
    """  # noqa: D301  click keeps lines after its mark as they are
    place = file_for(asked["save"], (BENCH,), request.path, option="--save", force=asked["force"])
    former = None if asked["against"] is None else read_result(asked["against"])
    if former is None and asked["fail_above"] is not None:
        raise UsageError("--fail-above needs a result to compare with", help="give --against")
    if asked["streams"] is not None:
        check_alone()
        with StageClock(session.err) as clock:
            plan = replace(_plan(request, asked, clock), peers=())
            threads = request.options.threads
            return bench_streams(session, plan, asked["streams"], threads, clock)
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
    change = None if former is None else _change(former, plan, found[0])
    if place.path is not None:
        place.write_text(result_text(request.path, _about(plan), [_saved(m) for m in found]))
    if change is not None:
        data["against"] = {**asdict(change), "is_noise": change.is_noise, "verdict": str(change)}
    session.answer(data, lambda: _show(session, found, flops, change))
    too_slow = change is not None and _is_too_slow(change, asked["fail_above"])
    return 1 if found[0].problem or too_slow else 0


def _about(plan: BenchPlan) -> dict[str, Any]:
    """What must be equal for two results to be compared."""
    shapes = {name: list(array.shape) for name, array in plan.feed.items()}
    return {"threads": plan.threads, "clients": plan.clients, "shapes": shapes}


def _saved(measured: Measurement) -> dict[str, Any]:
    return {"engine": measured.engine, "version": measured.version, "turns": measured.turns}


def _change(former: Mapping[str, Any], plan: BenchPlan, measured: Measurement) -> Difference | None:
    """How Afterglow's times differ from a former result; None if one of them has none."""
    for name, value in {"machine": machine(), **_about(plan)}.items():
        if former.get(name) != value:
            warn(f"--against: the {name} of the saved result was {former.get(name)}, now {value}")
    engines = {each["engine"]: each["turns"] for each in former["engines"]}
    before = engines.get(measured.engine)
    return difference(before, measured.turns) if before and measured.turns else None


def _is_too_slow(change: Difference, percent: float | None) -> bool:
    return percent is not None and not change.is_noise and change.percent > percent


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
        warmup=asked["warmup"] or 0.0,
        clients=asked["clients"],
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
        timing = ("seconds", "peers", "warmup", "clients", "streams")
        model = load_saved(request, *timing, "save", "against", "fail_above", "force")
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


def _show(
    session: Session,
    found: Sequence[Measurement],
    flops: float,
    change: Difference | None = None,
) -> None:
    session.show(_time_table(found, flops))
    session.show(_start_table(found))
    for measured in found:
        if measured.problem:
            help = f"; try {measured.help}" if measured.help else ""
            session.say(f"{measured.engine}: {measured.problem}{help}")
    verdict = _verdict(found)
    if verdict:
        session.say(verdict, "bold")
    if change is not None:
        session.say(f"against the saved result: {change}", "bold")


def _verdict(found: Sequence[Measurement]) -> str:
    """Afterglow's time, as a fraction of the fastest other engine's."""
    ours, *peers = found
    timed = [(peer.best, peer.engine) for peer in peers if peer.best]
    if ours.best is None or not timed:
        return ""
    best, name = min(timed)
    return f"{ours.best / best:.2f} times the time of {name}, the fastest other engine"


def _time_table(found: Sequence[Measurement], flops: float) -> Table:
    numbers = ("min", "mean", "p50", "p90", "p99", "calls", "calls/s", "GFLOP/s", "error")
    rows = table("engine", "version", *numbers, right=numbers)
    for measured in found:
        spread = [measured.mean, *(measured.percentile(percent) for percent in (50, 90, 99))]
        rate, calls = measured.gflops(flops), measured.throughput()
        rows.add_row(
            measured.engine,
            measured.version or NOTHING,
            *(_time(seconds) for seconds in (measured.best, *spread)),
            str(len(measured.times)) if measured.times else NOTHING,
            NOTHING if calls is None else f"{calls:,.0f}",
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
