"""`afterglow profile`: where the time of a run goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import click
from rich.table import Table

from afterglow.backends.cpu.compile import compile_module
from afterglow.backends.cpu.target import Target
from afterglow.cli.feed import build_feed, takes_inputs
from afterglow.cli.progress import StageClock
from afterglow.cli.report import duration
from afterglow.cli.request import Request, takes_model
from afterglow.cli.session import Session, table
from afterglow.driver.cache import CompileCache
from afterglow.driver.stages import Stages
from afterglow.report.profile import StepTime, profile
from afterglow.support.errors import UsageError


@click.command("profile", short_help="Say where the time of a run goes.")
@takes_model
@click.option("--repeat", type=click.IntRange(1), default=20, help="Run so often; the best counts.")
@click.option("--top", type=click.IntRange(1), default=30, show_default=True, help="Lines to show.")
@takes_inputs
def profile_command(session: Session, request: Request, top: int, **asked: Any) -> int:
    """Time each instruction of MODEL by itself; show the slowest.

    By default one thread runs it. GFLOP/s count the multiplications and additions of products as
    they are defined: an algorithm that needs fewer may exceed what the machine can do. GB/s count
    each operand and result once.
    """
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
    session.answer(data, lambda: _show(session, steps, total, top))
    return 0


def _profile(request: Request, asked: dict[str, Any], clock: StageClock) -> list[StepTime]:
    options = request.options
    if options.backend != "cpu":
        raise UsageError(f"backend {options.backend!r} is not profiled", help="use --backend cpu")
    clock("read")
    source = request.source()
    feed = build_feed(source.signature(options).inputs, options, asked["inputs"], asked["seed"])
    shapes = {name: array.shape for name, array in feed.items()}
    options = replace(options, shapes=shapes, dims={})
    stages = Stages(options)
    clock("import")
    module, _ = source.load(options)
    program, _ = stages.plan(stages.lower(stages.optimise(module)))
    clock("emit and run")
    compiled = compile_module if options.cache is None else CompileCache(options.cache).compile
    target, threads = Target.of(options.target), options.threads or 1
    return profile(
        program,
        list(feed.values()),
        target,
        threads,
        asked["repeat"],
        compiled,
        options.policy,
    )


def _data(step: StepTime, total: float) -> dict[str, Any]:
    return {
        **asdict(step),
        "gflops": step.gflops,
        "gigabytes_per_second": step.bandwidth,
        "share": step.seconds / total if total else 0.0,
    }


def _show(session: Session, steps: Sequence[StepTime], total: float, top: int) -> None:
    session.show(_table(steps[:top], total))
    hidden = len(steps) - top
    rest = f"; {hidden} faster ones are not shown" if hidden > 0 else ""
    session.say(f"{duration(total)} in {len(steps)} instructions{rest}", "bold")


def _table(steps: Sequence[StepTime], total: float) -> Table:
    numbers = ("time", "share", "GFLOP/s", "GB/s")
    rows = table(*numbers, "kernel", "operands", "result", "from", right=numbers)
    for step in steps:
        rows.add_row(
            duration(step.seconds),
            f"{step.seconds / total:.1%}",
            f"{step.gflops:.1f}" if step.flops else "",
            f"{step.bandwidth:.1f}",
            step.kernel + (" (host)" if step.on_host else ""),
            ", ".join(step.operands[:2]),
            ", ".join(step.results[:1]),
            step.origin,
        )
    return rows
