"""`afterglow profile`: show the time of each instruction of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import click
from rich.table import Table

from afterglow.backends.capabilities import Profiling
from afterglow.cli.destination import TRACE, file_for, takes_force
from afterglow.cli.each import for_each_extent
from afterglow.cli.feed import build_feed, compiled_for, takes_inputs
from afterglow.cli.progress import StageClock
from afterglow.cli.report import duration
from afterglow.cli.request import Request, takes_model, takes_state
from afterglow.cli.saved import load_saved, saved_feed
from afterglow.cli.session import Session
from afterglow.cli.verb_command import VerbCommand
from afterglow.driver.stages import Stages, find_backend
from afterglow.driver.state import import_with_state
from afterglow.frontends.base import NeedsValuesError
from afterglow.instr import interface_of
from afterglow.report.node_times import NodeTime, node_times
from afterglow.report.profile import Profile, StepTime, profile
from afterglow.report.profile_trace import profile_trace
from afterglow.report.saved_profile import profile_saved
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.version import Version
from afterglow.support.errors import UsageError
from afterglow.support.tables import table


@click.command("profile", cls=VerbCommand)
@takes_model
@click.option(
    "--repeat", type=click.IntRange(1), default=20, help="Number of runs; the fastest counts."
)
@click.option("--top", type=click.IntRange(1), default=30, show_default=True, help="Rows to show.")
@click.option(
    "--by",
    type=click.Choice(("instruction", "node")),
    default="instruction",
    show_default=True,
    help="A row for each instruction, or for the model's nodes that are computed together.",
)
@click.option("--trace", metavar="FILE.json", help="Write what each thread did, for Perfetto.")
@takes_force
@takes_inputs
@takes_state
@for_each_extent("--trace")
def profile_command(
    session: Session,
    request: Request,
    top: int,
    by: str,
    trace: str | None,
    force: bool,
    **asked: Any,
) -> int:
    """Time each instruction of a run of MODEL; show the slowest ones.

    Runs on one thread unless --threads says otherwise. Profiled runs take turns with runs as a
    whole; of both, the fastest counts. The last lines compare them: the sum of all instructions,
    the run, and the rest, which is time between kernels.

    With --by node, instructions are added up by the model's nodes. Nodes that one kernel computes
    are one row: its time cannot be divided. GFLOP/s count the multiplications and additions of the
    definition, so an algorithm that needs fewer may exceed the peak of the machine. GB/s count each
    operand and result once. With --state, each run begins with the values of those inputs as the
    state. In a compiled model (FILE.agc, a bundle's library) the steps of the code are timed, on
    one thread, each including about 1 µs of call overhead.

    \b
    Examples:
      afterglow profile model.onnx --by node
      afterglow profile model.onnx --threads 2 --trace trace.json
    """  # noqa: D301  click keeps lines after its mark as they are
    place = file_for(trace, (TRACE,), request.path, option="--trace", force=force)
    with StageClock(session.err) as clock:
        found = _profile(request.watched(clock), asked, clock)
        if trace is not None:
            clock("trace")
            place.write_text(profile_trace(found, request.options.backend).text())
    session.answer(
        {
            "model": request.path,
            "threads": request.options.threads or 1,
            "seconds": found.seconds,
            "run_seconds": found.run_seconds,
            "between_seconds": found.between_seconds,
            "steps": [_data(step, found.seconds) for step in slowest_first(found)],
            "nodes": [asdict(each) for each in node_times(found.steps)],
            "trace": None if trace is None else str(place.path),
        },
        lambda: _show(session, request, found, top, by == "node"),
    )
    return 0


def slowest_first(found: Profile) -> list[StepTime]:
    """The instructions of a profile by their time."""
    return sorted(found.steps, key=lambda step: -step.seconds)


def _profile(request: Request, asked: dict[str, Any], clock: StageClock) -> Profile:
    if request.is_saved:
        return _profile_saved(request, asked, clock)
    options = request.options
    backend = find_backend(options)
    if not isinstance(backend, Profiling):
        raise UsageError(f"backend {options.backend!r} has no profiler", help="leave --backend out")
    clock("read")
    source = request.source()
    inputs = request.inputs(source)
    feed = build_feed(inputs, request, asked["inputs"], asked["seed"])
    options = compiled_for(inputs, request, feed)
    stages = Stages(options)
    clock("import")
    try:
        module, _ = import_with_state(source, options)
    except NeedsValuesError:
        raise _no_program() from None
    program, _ = stages.plan(stages.lower(stages.optimise(module)))
    clock("emit and run")
    loading = LoadOptions(options.threads or 1)
    kept = [port.name for port in interface_of(program).states if port.name in feed]
    state = {name: feed.pop(name) for name in kept}  # what the model itself keeps begins with zeros
    return profile(backend, program, list(feed.values()), loading, asked["repeat"], state)


def _profile_saved(request: Request, asked: dict[str, Any], clock: StageClock) -> Profile:
    clock("load")
    if request.options.threads not in (None, 1):
        raise UsageError("a compiled model is profiled on one thread", help="leave --threads out")
    request = replace(request, options=replace(request.options, threads=1))
    model = load_saved(request, "repeat", "top", "by")
    feed = saved_feed(model, request, asked["inputs"], asked["seed"])
    clock("run")
    version = model.version_for(feed)
    if not isinstance(version, Version):
        raise _no_program()
    inputs = [feed[name] for name in version.compiled.input_names]
    return profile_saved(version.compiled, inputs, asked["repeat"])


def _no_program() -> UsageError:
    return UsageError(
        "the model has data-dependent shapes: only a single program can be profiled",
        help="time it with afterglow bench",
    )


def _data(step: StepTime, total: float) -> dict[str, Any]:
    return {
        **asdict(step),
        "gflops": step.gflops,
        "gigabytes_per_second": step.bandwidth,
        "share": step.seconds / total if total else 0.0,
    }


def _show(session: Session, request: Request, found: Profile, top: int, by_node: bool) -> None:
    nodes, steps, total = node_times(found.steps), slowest_first(found), found.seconds
    session.show(_node_table(nodes[:top], total) if by_node else _table(steps[:top], total))
    unit = "groups of nodes" if by_node else "steps" if request.is_saved else "instructions"
    count = len(nodes if by_node else steps)
    rest = f"; {count - top} faster ones are not shown" if count > top else ""
    session.say(f"{duration(total)} in {count} {unit}{rest}", "bold")
    run, between = found.run_seconds, found.between_seconds
    session.say(
        f"a run takes {duration(run)}: {total / run:.1%} of it is in kernels, "
        f"{'-' if between < 0 else ''}{duration(abs(between))} between kernels"
    )


def _node_table(nodes: Sequence[NodeTime], total: float) -> Table:
    rows = table("time", "share", "nodes", "kernels", right=("time", "share"))
    for each in nodes:
        names = " + ".join(each.nodes) or "(no node)"
        share = f"{each.seconds / total:.1%}"
        rows.add_row(duration(each.seconds), share, names, ", ".join(each.kernels))
    return rows


def _table(steps: Sequence[StepTime], total: float) -> Table:
    detailed = any(step.results for step in steps)  # steps of a compiled model have no details
    rates, types = (("GFLOP/s", "GB/s"), ("operands", "result")) if detailed else ((), ())
    numbers = ("time", "share", *rates)
    rows = table(*numbers, "kernel", *types, "from", right=numbers)
    for step in steps:
        rows.add_row(
            duration(step.seconds),
            f"{step.seconds / total:.1%}",
            *(_rates(step) if detailed else ()),
            step.kernel + (" (host)" if step.on_host else ""),
            *((", ".join(step.operands[:2]), ", ".join(step.results[:1])) if detailed else ()),
            ", ".join(step.origins),
        )
    return rows


def _rates(step: StepTime) -> tuple[str, str]:
    return f"{step.gflops:.1f}" if step.flops else "", f"{step.bandwidth:.1f}"
