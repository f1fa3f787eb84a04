"""Plan two memories: what is used most lies in the fast one, the rest is brought there in time.

A buffer of the arena that pays most for its place is resident: it lies in fast memory all its life.
So is a constant or input that is used more than once: it is fetched before its first use. Whatever
else an instruction works on is resident for that instruction only: it is fetched before, if it is
read, and copied back after, if it is written.

A transfer begins as early as fast memory has room for it, and is awaited where it is needed: what
is computed in between hides it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from afterglow.instr import Buffer, Copy, Instr, Prefetch, Program, Wait, origins_of
from afterglow.memory.lifetimes import lifetimes_of, lower_bound, place_lifetimes, working_steps
from afterglow.memory.memories import Memories, MemorySpace
from afterglow.memory.placement import arena_of, place
from afterglow.memory.planner import place_buffers
from afterglow.memory.residency import Residency, choose_residencies
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import MemoryPlan

_AMBITIONS = (1, 15 / 16, 7 / 8, 3 / 4, 1 / 2, 0)
"""How much of fast memory to fill: holes between buffers may make the most ambitious too large."""


@dataclass(frozen=True)
class MemoriesPlan:
    """What planning two memories gave."""

    fast: MemoryPlan
    slow: MemoryPlan
    transfers: int
    """Prefetches into fast memory."""
    overlapped: int
    """Those that have time while something else is computed."""


def plan_memories(program: Program, memories: Memories) -> MemoriesPlan:
    """Choose what lies in which memory, insert the transfers, and set all addresses."""
    program.body = working_steps(program)
    residencies, fast = _fill_fast(program, memories)
    _insert_transfers(program, residencies)
    place_lifetimes(program)
    slow = _fill_slow(program, memories.slow)
    program.arenas = {
        memories.fast.name: fast.arena_bytes,
        memories.slow.name: slow.arena_bytes,
    }
    program.memory_plan = MemoryPlan(
        fast.arena_bytes + slow.arena_bytes,
        fast.lower_bound_bytes + slow.lower_bound_bytes,
        fast.total_bytes + slow.total_bytes,
    )
    fetched = [each for each in residencies if each.source is not None]
    return MemoriesPlan(fast, slow, len(fetched), sum(each.issue < each.first for each in fetched))


def _fill_fast(program: Program, memories: Memories) -> tuple[list[Residency], MemoryPlan]:
    """Choose what is resident in fast memory, as much as fits, and give it addresses."""
    for ambition in _AMBITIONS:
        residencies = choose_residencies(program, memories, ambition)
        lives = [each.life for each in residencies]
        bound = lower_bound(lives)
        addresses = place(lives, bound)
        arena = arena_of(lives, addresses)
        if memories.fast.capacity is None or arena <= memories.fast.capacity:
            break
    for each, address in zip(residencies, addresses, strict=True):
        each.buffer.memory, each.buffer.address = memories.fast.name, address
    return residencies, MemoryPlan(arena, bound, sum(life.size for life in lives))


def _fill_slow(program: Program, memory: MemorySpace) -> MemoryPlan:
    """Give the rest of the arena addresses in slow memory."""
    lives = lifetimes_of(program, memory.alignment)
    rest = {buffer: life for buffer, life in lives.items() if not buffer.memory}
    for buffer in rest:
        buffer.memory = memory.name
    return place_buffers(rest, memory)


def _insert_transfers(program: Program, residencies: Sequence[Residency]) -> None:
    """Let each instruction work on what is in fast memory, and move what must be moved."""
    before: dict[int, list[Instr]] = {}
    fetched: dict[int, list[Instr]] = {}
    after: dict[int, list[Instr]] = {}
    inside: dict[int, dict[Buffer, Buffer]] = {}
    for each in residencies:
        if each.source is not None:
            origins = origins_of(program.body[each.first])
            transfer = Prefetch(each.buffer, each.source, origins)
            before.setdefault(each.issue, []).append(transfer)
            fetched.setdefault(each.first, []).append(Wait(transfer))
        if each.target is not None:
            origins = origins_of(program.body[each.last])
            after.setdefault(each.last, []).append(Copy(each.target, each.buffer, origins))
        if each.uses:
            each.buffer.name = program.names.claim(each.buffer.name)
        for index in each.uses:
            inside.setdefault(index, {})[each.operand] = each.buffer
    body: list[Instr] = []
    for index, step in enumerate(program.body):
        step.substitute(partial(_renamed, inside.get(index, {})))
        groups = (before.get(index, ()), fetched.get(index, ()), (step,), after.get(index, ()))
        body.extend(instruction for group in groups for instruction in group)
    program.body = body


def _renamed(names: Mapping[Buffer, Buffer], buffer: Buffer) -> Buffer:
    return names.get(buffer, buffer)
