"""`afterglow explain`: show a model's memory use and the algorithms of its kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from afterglow.cli.choices import choice_data, choice_table, find_choices
from afterglow.cli.destination import PICTURE, file_for, takes_force
from afterglow.cli.each import for_each_extent
from afterglow.cli.explain_partitions import explain_partitions
from afterglow.cli.progress import StageClock
from afterglow.cli.request import Request, takes_model
from afterglow.cli.session import Session
from afterglow.driver.stages import Stages
from afterglow.graph import Node
from afterglow.instr import Copy, Stack, origins_of
from afterglow.memory.picture import memory_svg
from afterglow.memory.timeline import Allocation, Timeline, origin_of, work_of
from afterglow.report.choices import ExplainedChoice
from afterglow.support.tables import table
from afterglow.types import MemoryPlan

MOST_BUFFERS = 10
"""How many of the largest buffers are listed."""


MEASURED_SECONDS = 2.0
"""Time for measuring the candidate plans of all kernels together."""


@click.command()
@takes_model
@click.option(
    "--memory",
    "memory",
    metavar="FILE.svg",
    help="Draw the arena as an SVG file: address over time.",
)
@click.option(
    "--measure", is_flag=True, help="Time each candidate algorithm instead of only estimating."
)
@click.option(
    "--partitions",
    is_flag=True,
    help="Show which device computes what, and why, of a model on several devices.",
)
@click.option(
    "--draw", metavar="FILE", help="Draw the partitions as FILE.svg, or as FILE.dot for Graphviz."
)
@takes_force
@for_each_extent("--memory", "--draw")
def explain(
    session: Session,
    request: Request,
    memory: str | None,
    measure: bool,
    partitions: bool,
    draw: str | None,
    force: bool,
) -> int:
    """Compile MODEL and show its memory plan: the arena, the largest buffers, and the peak.

    The lower bound is the largest number of bytes that are live at the same time: no plan of the
    same program needs less. Instructions are counted from 0, as in the drawing.

    Then list the kernel plans of convolutions, matrix products and other kernels: the chosen
    algorithm and the alternatives. The estimate is the number of operations that would take as
    long. With --measure each is timed on one thread.

    Of a model in 16-bit floats, also list what stays in float32, and why.

    Of a model on several devices, show what each computes and why, what crosses between them, and
    the expected time of a run against that of each device alone.

    \b
    Examples:
      afterglow explain model.onnx --memory memory.svg
      afterglow explain model.onnx --backend auto --partitions
    """  # noqa: D301  click keeps lines after its mark as they are
    if partitions or draw is not None or request.options.devices:
        return explain_partitions(session, request, draw, force)
    return _explain(session, request, memory, measure, force)


def _explain(
    session: Session, request: Request, memory: str | None, measure: bool, force: bool
) -> int:
    """Show the memory plan and the kernels of a model on one backend."""
    place = file_for(memory, (PICTURE,), request.path, option="--memory", force=force)
    with StageClock(session.err) as clock:
        request = request.watched(clock)
        stages = Stages(request.options)
        module = request.load(request.source())
        kept = stages.kept_floats(module)
        program, plan = stages.plan(stages.lower(stages.optimise(module)))
        timeline = Timeline(program)
        if memory is not None:
            clock("draw")
            title = Path(request.path).name
            place.write_text(memory_svg(program, plan.lower_bound_bytes, title))
        clock("choices")
        choices = find_choices(stages, module, MEASURED_SECONDS if measure else None)
    session.answer(
        {
            "model": request.path,
            **_plan_data(plan, timeline),
            "largest": [_buffer_data(allocation) for allocation in _largest(timeline)],
            "peak": _peak_data(timeline),
            "picture": None if memory is None else str(place.path),
            "kernels": [choice_data(choice) for choice in choices],
            "float32": [_kept_data(node, reason) for node, reason in kept.items()],
        },
        lambda: _show(session, plan, timeline, choices, kept, place.path),
    )
    return 0


def _plan_data(plan: MemoryPlan, timeline: Timeline) -> dict[str, Any]:
    steps = timeline.steps
    return {
        "arena_bytes": plan.arena_bytes,
        "lower_bound_bytes": plan.lower_bound_bytes,
        "ratio": _ratio(plan),
        "unshared_arena_bytes": plan.total_bytes,
        "buffers": len(timeline.allocations),
        "instructions": len(steps),
        "stacks": sum(isinstance(step, Stack) for step in steps),
        "copies": sum(isinstance(step, Copy) for step in steps),
    }


def _ratio(plan: MemoryPlan) -> float:
    return plan.arena_bytes / plan.lower_bound_bytes if plan.lower_bound_bytes else 1.0


def _largest(timeline: Timeline) -> list[Allocation]:
    return sorted(timeline.allocations, key=lambda allocation: -allocation.nbytes)[:MOST_BUFFERS]


def _buffer_data(allocation: Allocation) -> dict[str, Any]:
    return {
        "name": allocation.buffer.name,
        "type": str(allocation.buffer.type),
        "bytes": allocation.nbytes,
        "address": allocation.address,
        "first_instruction": allocation.start,
        "last_instruction": allocation.last,
        "made_by": work_of(allocation.maker),
        "origins": list(origins_of(allocation.maker)),
    }


def _peak_data(timeline: Timeline) -> dict[str, Any] | None:
    if not timeline.allocations:
        return None
    peak = timeline.peak
    return {
        "instruction": peak,
        "made_by": work_of(timeline.steps[peak]),
        "origins": list(origins_of(timeline.steps[peak])),
        "live_bytes": timeline.live_bytes[peak],
        "buffers": [_buffer_data(allocation) for allocation in timeline.live_at(peak)],
    }


def _show(
    session: Session,
    plan: MemoryPlan,
    timeline: Timeline,
    choices: Sequence[ExplainedChoice],
    kept: Mapping[Node, str],
    picture: Path | None,
) -> None:
    session.show(_plan_table(plan, timeline))
    if timeline.allocations:
        peak = timeline.peak
        session.say(f"the {len(_largest(timeline))} largest buffers", "bold")
        session.show(_buffer_table(_largest(timeline)))
        origin = origin_of(timeline.steps[peak])
        work = work_of(timeline.steps[peak]) + (f" ({origin})" if origin else "")
        live = f"{timeline.live_bytes[peak]:,} bytes are live at instruction {peak}"
        session.say(f"the peak: {live}, {work}", "bold")
        session.show(_buffer_table(timeline.live_at(peak)))
    if choices:
        session.say("kernel plans, the chosen one first", "bold")
        session.show(choice_table(choices))
    if kept:
        session.say("nodes that stay in float32", "bold")
        session.show(_kept_table(kept))
    if picture is not None:
        session.say(f"memory drawn in {picture}")


def _plan_table(plan: MemoryPlan, timeline: Timeline) -> Table:
    facts = _plan_data(plan, timeline)
    rows = table("memory", "", right=("",))
    for name, text in (
        ("arena", f"{plan.arena_bytes:,} B"),
        ("arena, lower bound", f"{plan.lower_bound_bytes:,} B"),
        ("arena / lower bound", f"{_ratio(plan):.3f}"),
        ("arena without sharing", f"{plan.total_bytes:,} B"),
        ("buffers", str(facts["buffers"])),
        ("instructions", str(facts["instructions"])),
        ("of which stacks", str(facts["stacks"])),
        ("of which copies", str(facts["copies"])),
    ):
        rows.add_row(name, text)
    return rows


def _kept_data(node: Node, reason: str) -> dict[str, str]:
    return {"node": node.origin or node.name, "op": node.op.mnemonic, "reason": reason}


def _kept_table(kept: Mapping[Node, str]) -> Table:
    rows = table("node", "op", "reason")
    for node, reason in kept.items():
        rows.add_row(*_kept_data(node, reason).values())
    return rows


def _buffer_table(allocations: Sequence[Allocation]) -> Table:
    numbers = ("bytes", "address", "instructions")
    rows = table("buffer", "type", *numbers, "made by", "from", right=numbers)
    for allocation in allocations:
        rows.add_row(
            str(allocation.buffer),
            str(allocation.buffer.type),
            f"{allocation.nbytes:,}",
            f"{allocation.address:,}",
            f"{allocation.start}-{allocation.last}",
            work_of(allocation.maker),
            origin_of(allocation.maker),
        )
    return rows
