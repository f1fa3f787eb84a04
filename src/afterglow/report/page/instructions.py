"""What is known of each instruction of a planned program besides its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afterglow.backends.capabilities import Choice
from afterglow.instr import Access, Buffer, Instr, KernelPlan, Program, Region
from afterglow.instr.bind import bind_program
from afterglow.instr.program import dims_of_program
from afterglow.memory.timeline import Timeline
from afterglow.ops.flops import step_bytes, step_flops
from afterglow.partition.estimate import plan_of
from afterglow.report.profile import StepTime

MOST_CANDIDATES = 6
"""Candidate plans of a kernel that are listed."""


def instruction_facts(
    program: Program,
    timeline: Timeline,
    choices: Sequence[Choice],
    times: Mapping[int, StepTime],
    expected: Sequence[float] | None,
) -> list[dict[str, Any]]:
    """Facts for each instruction that does something, in order: plan, memory, work, time.

    `times` and `expected` are by the place in the program's body; extents that are ranges count as
    their largest where nothing was timed.
    """
    bound = bind_program(program, {dim.name: dim.high for dim in dims_of_program(program)})
    chosen = {place: number for number, choice in enumerate(choices) for place in choice.places}
    working = {id(step) for step in timeline.steps}
    found: list[dict[str, Any]] = []
    for place, step in enumerate(program.body):
        if id(step) not in working:
            continue
        facts: dict[str, Any] = {"step": len(found), **_work(bound.body[place], times.get(place))}
        if expected is not None:
            facts["expected"] = expected[place]
        if place in chosen:
            facts["choice"] = chosen[place]
        found.append({**facts, **_plan_facts(plan_of(step)), "buffers": _buffers(step)})
    return found


def _work(bound: Instr, time: StepTime | None) -> dict[str, Any]:
    if time is None:
        return {"flops": step_flops(bound), "bytes": step_bytes(bound)}
    about = {"flops": time.flops, "bytes": time.bytes}
    host = {"on_host": True} if time.on_host else {}
    return {**about, "kernel": time.kernel, "seconds": time.seconds, **host}


def _plan_facts(plan: KernelPlan | None) -> dict[str, Any]:
    if plan is None:
        return {}
    return {
        "plan": plan.variant,
        "workspace_bytes": plan.workspace_bytes,
        "thread_bytes": plan.thread_bytes,
    }


def _buffers(step: Instr) -> list[list[Any]]:
    """Access, name, region and address in the arena of each operand; views are where they lie."""
    names = {Access.OUT: 0, Access.INOUT: 1, Access.IN: 2, Access.SCRATCH: 3}
    used = dict.fromkeys(step.accesses())
    ordered = sorted(used, key=lambda use: names[use[0]])
    return [[how.value, b.name, b.region.value, _address(b)] for how, b in ordered]


def _address(buffer: Buffer) -> int | None:
    if buffer.region is not Region.ARENA or buffer.root.address is None:
        return None
    start = buffer.start if isinstance(buffer.start, int) else 0
    return buffer.root.address + start * buffer.type.dtype.itemsize


def choices_data(choices: Sequence[Choice]) -> list[dict[str, Any]]:
    """The candidate plans of each kernel, the chosen one first."""
    return [
        {
            "kernel": choice.kernel,
            "count": len(choice.plans),
            "candidates": [
                {"plan": each.variant, "cost": each.cost, "workspace_bytes": each.workspace_bytes}
                for each in choice.plans[:MOST_CANDIDATES]
            ],
        }
        for choice in choices
    ]
