"""Give every buffer of the arena an address, so that the arena is small."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from afterglow.instr import Access, Buffer, OpInstr, Program, Stack
from afterglow.memory.exact import improve
from afterglow.memory.lifetimes import Lifetime, lifetimes_of, lower_bound
from afterglow.memory.memories import MAIN_MEMORY, MemorySpace
from afterglow.memory.placement import arena_of, place
from afterglow.support.errors import UnsupportedError
from afterglow.types import MemoryPlan

EXACT_STEPS = 100_000
"""Effort of the search for the best plan, where heuristics miss the bound: less than a second."""


def plan_memory(
    program: Program, memory: MemorySpace = MAIN_MEMORY, *, exact: int = EXACT_STEPS
) -> MemoryPlan:
    """Set the address of every buffer and the size of the arena.

    Where heuristics miss the lower bound, a search looks for the best plan; `exact` says how many
    steps it may take, 0 to leave it out.
    """
    memory = replace(memory, alignment=alignment_of(program, memory))
    lifetimes = lifetimes_of(program, memory.alignment)
    plan = place_buffers(lifetimes, memory, scratch_of(program), exact=exact)
    program.arena_bytes = plan.arena_bytes
    program.memory_plan = plan
    return plan


def place_buffers(
    lifetimes: Mapping[Buffer, Lifetime],
    memory: MemorySpace,
    scratch: Collection[Buffer] = (),
    *,
    exact: int = EXACT_STEPS,
) -> MemoryPlan:
    """Set the address of each of the buffers in one memory."""
    sized = {buffer: life for buffer, life in lifetimes.items() if life.size}
    lives = list(sized.values())
    bound = lower_bound(lives)
    addresses = place(lives, bound)
    arena = arena_of(lives, addresses)
    if arena > bound and exact:
        addresses = improve(lives, addresses, exact)
        arena = arena_of(lives, addresses)
    for buffer in lifetimes:
        buffer.address = 0  # also of what is empty
    for buffer, address in zip(sized, addresses, strict=True):
        buffer.address = address
    _check_size(memory, arena)
    kernel = [life for buffer, life in sized.items() if buffer in scratch]
    return MemoryPlan(arena, bound, sum(life.size for life in lives), lower_bound(kernel))


def alignment_of(program: Program, memory: MemorySpace) -> int:
    """The bytes at whose multiples buffers begin: what the memory and all kernels need."""
    steps = (step for step in program.body if isinstance(step, (OpInstr, Stack)))
    wanted = (step.plan.alignment for step in steps if step.plan is not None)
    return max((memory.alignment, *wanted))


def scratch_of(program: Program) -> set[Buffer]:
    """The buffers that hold nothing from one instruction to the next."""
    accesses = [(access, b.root) for step in program.body for access, b in step.accesses()]
    kept = {root for access, root in accesses if access is not Access.SCRATCH}
    return {root for _, root in accesses} - kept


def _check_size(memory: MemorySpace, needed: int) -> None:
    if memory.capacity is not None and needed > memory.capacity:
        raise UnsupportedError(
            f"the program needs {needed} bytes of memory {memory.name!r}, "
            f"which has {memory.capacity}"
        )
