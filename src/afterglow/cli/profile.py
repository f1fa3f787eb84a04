"""`afterglow profile`: show the time of each instruction of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.table import Table

from afterglow.backends.capabilities import Profiling
from afterglow.cli.each import for_each_extent
from afterglow.cli.feed import build_feed, compiled_for, takes_inputs
from afterglow.cli.progress import StageClock
from afterglow.cli.report import duration
from afterglow.cli.request import Request, takes_model, takes_state
from afterglow.cli.saved import load_saved, saved_feed
from afterglow.cli.session import Session
from afterglow.driver.stages import Stages, find_backend
from afterglow.driver.state import import_with_state
from afterglow.frontends.base import NeedsValuesError
from afterglow.instr import interface_of
from afterglow.report.profile import StepTime, profile
from afterglow.report.saved_profile import profile_saved
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.version import Version
from afterglow.support.errors import UsageError
from afterglow.support.tables import table


@click.command("profile")
@takes_model
@click.option(
    "--repeat", type=click.IntRange(1), default=20, help="Number of runs; the fastest counts."
)
@click.option("--top", type=click.IntRange(1), default=30, show_default=True, help="Rows to show.")
@takes_inputs
@takes_state
@for_each_extent()
def profile_command(session: Session, request: Request, top: int, **asked: Any) -> int:
    """Time each instruction of MODEL separately; show the slowest ones.

    Runs on one thread unless --threads says otherwise. GFLOP/s count the multiplications and
    additions of the definition, so an algorithm that needs fewer may exceed the peak of the
    machine. GB/s count each operand and result once. With --state, each run begins with the values
    of those inputs as the state. In a compiled model (FILE.agc, a bundle's library) the steps of
    the code are timed, on one thread, each including about 1 µs of call overhead.

    \b
    Examples:
      afterglow profile model.onnx --top 5
    """  # noqa: D301  click keeps lines after its mark as they are
    with StageClock(session.err) as clock:
        steps = _profile(request.watched(clock), asked, clock)
    total = sum(step.seconds for step in steps)
    steps = sorted(steps, key=lambda step: -step.seconds)
    data = {
        "model": request.path,
        "threads": request.options.threads or 1,
        "seconds": total,
        "steps": [_data(step, total) for step in steps],
    }
    unit = "steps" if request.is_saved else "instructions"
    session.answer(data, lambda: _show(session, steps, total, top, unit))
    return 0


def _profile(request: Request, asked: dict[str, Any], clock: StageClock) -> list[StepTime]:
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


def _profile_saved(request: Request, asked: dict[str, Any], clock: StageClock) -> list[StepTime]:
    clock("load")
    if request.options.threads not in (None, 1):
        raise UsageError("a compiled model is profiled on one thread", help="leave --threads out")
    model = load_saved(request, "repeat", "top")
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


def _show(session: Session, steps: Sequence[StepTime], total: float, top: int, unit: str) -> None:
    session.show(_table(steps[:top], total))
    hidden = len(steps) - top
    rest = f"; {hidden} faster ones are not shown" if hidden > 0 else ""
    session.say(f"{duration(total)} in {len(steps)} {unit}{rest}", "bold")


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
