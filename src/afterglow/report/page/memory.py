"""The memory map of a planned program, as a page draws it."""

from __future__ import annotations

from typing import Any

from afterglow.instr import Program
from afterglow.memory.timeline import Allocation, Timeline, kind_of
from afterglow.types import MemoryPlan


def memory_data(program: Program, plan: MemoryPlan, timeline: Timeline) -> dict[str, Any]:
    """Each allocation with its address and lifetime, what is live when, and the peak.

    Time counts the instructions that do something. A program has one arena, or one for each memory
    of its target.
    """
    numbers = {id(step): number for number, step in enumerate(timeline.steps)}
    return {
        "arena_bytes": plan.arena_bytes,
        "lower_bound_bytes": plan.lower_bound_bytes,
        "unshared_bytes": plan.total_bytes,
        "arenas": {"": program.arena_bytes} if program.arena_bytes is not None else program.arenas,
        "instructions": len(timeline.steps),
        "live_bytes": timeline.live_bytes,
        "peak": timeline.peak if timeline.allocations else None,
        "allocations": [_allocation_data(each, numbers) for each in timeline.allocations],
    }


def _allocation_data(allocation: Allocation, numbers: dict[int, int]) -> dict[str, Any]:
    return {
        "name": allocation.buffer.name,
        "type": str(allocation.buffer.type),
        "memory": allocation.buffer.memory,
        "address": allocation.address,
        "bytes": allocation.nbytes,
        "first": allocation.start,
        "last": allocation.last,
        "maker": numbers.get(id(allocation.maker)),
        "kind": kind_of(allocation.maker),
    }
