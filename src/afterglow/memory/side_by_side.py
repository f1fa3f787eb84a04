"""Put instructions that do not depend on each other side by side, where memory allows it.

Branches of a network run one after the other in the order of least memory, so that a buffer of one
often lies where one of another lay. A device with many cores does better if the first instructions
of all branches are neighbours, then the second ones, and if their buffers are apart: it runs such
neighbours at the same time. Here they become neighbours, and the lifetimes of what they touch
overlap, so that the planner of memory keeps it apart. The peak stays as it is: an instruction that
would raise it stays where it is, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from afterglow.instr import ON_HOST, Access, Buffer, Dealloc, Instr, OpInstr, Program, Region, Stack
from afterglow.instr.overlap import overlap
from afterglow.memory.lifetimes import aligned, place_lifetimes, working_steps
from afterglow.memory.memories import MAIN_MEMORY
from afterglow.memory.planner import alignment_of

MOST_BESIDE = 16
"""Instructions that run side by side at most."""
WINDOW = 48
"""How many instructions later another one may be found: far ones would leave the caches."""


def put_side_by_side(program: Program) -> int:
    """Group independent instructions, and let their lifetimes overlap; say how many moved."""
    groups = _Grouping(program).groups()
    steps = [step for group in groups for step in group]
    moved = sum(a is not b for a, b in zip(steps, working_steps(program), strict=True))
    place_lifetimes(program, groups)
    return moved


class _Grouping:
    """Takes instructions in order, each with later ones that may run beside it.

    Time counts the instructions in their first order; one that is moved has the time of the first
    member of its group.
    """

    def __init__(self, program: Program) -> None:
        self.steps = working_steps(program)
        self.touched = [list(_touched(step)) for step in self.steps]
        self.known: list[dict[int, bool]] = [{} for _ in self.steps]
        """Of each instruction, whether it depends on some of the earlier ones."""
        self.times = list(range(len(self.steps)))
        self.done = [False] * len(self.steps)
        self.alignment = alignment_of(program, MAIN_MEMORY)
        self.users: dict[Buffer, list[int]] = {}
        for index, operands in enumerate(self.touched):
            for root in {buffer.root for _, buffer in operands}:
                if root.region is Region.ARENA:
                    self.users.setdefault(root, []).append(index)
        self.live = np.zeros(len(self.steps), np.int64)
        for root in self.users:
            self._count(root, 1)
        self.most = int(self.live.max(initial=0))

    def groups(self) -> list[list[Instr]]:
        """All instructions, in groups."""
        found = []
        for first in range(len(self.steps)):
            if not self.done[first]:
                members = self._group(first)
                for member in members:
                    self.done[member] = True
                found.append([self.steps[member] for member in members])
        return found

    def _group(self, first: int) -> list[int]:
        """An instruction with later ones that are independent of all that is left before them."""
        members, passed = [first], [first]
        if not _can_join(self.steps[first]):
            return members
        for index in range(first + 1, min(first + WINDOW, len(self.steps))):
            if self.done[index]:
                continue
            if _is_fence(self.steps[index]) or len(members) == MOST_BESIDE:
                break
            depends = any(self._depends(index, other) for other in reversed(passed))
            if not depends and _can_join(self.steps[index]) and self._moves(index, first):
                members.append(index)
            passed.append(index)
        return members

    def _depends(self, index: int, earlier: int) -> bool:
        """Whether an instruction or an earlier one writes what the other touches."""
        known = self.known[index]
        if earlier not in known:
            known[earlier] = any(
                (writes or other_writes) and overlap(buffer, other)
                for other_writes, other in self.touched[earlier]
                for writes, buffer in self.touched[index]
                if buffer.root is other.root
            )
        return known[earlier]

    def _moves(self, index: int, time: int) -> bool:
        """Give an instruction another time, if the peak does not become higher."""
        before, roots = self.times[index], {b.root for _, b in self.touched[index]}
        own = [root for root in roots if root in self.users]
        self._retime(index, time, own)
        if self.live[time : before + 1].max() <= self.most:
            return True
        self._retime(index, before, own)
        return False

    def _retime(self, index: int, time: int, roots: Sequence[Buffer]) -> None:
        for root in roots:
            self._count(root, -1)
        self.times[index] = time
        for root in roots:
            self._count(root, 1)

    def _count(self, root: Buffer, sign: int) -> None:
        """Count the bytes of a buffer, or no longer, for as long as it is in use."""
        times = [self.times[user] for user in self.users[root]]
        size = aligned(root.type.nbytes, self.alignment)
        self.live[min(times) : max(times) + 1] += sign * size


def _touched(step: Instr) -> Iterator[tuple[bool, Buffer]]:
    """What a step accesses, and whether it changes that; the end of an alias forgets it."""
    if isinstance(step, Dealloc):
        yield True, step.buffer
    for access, buffer in step.accesses():
        yield access is not Access.IN, buffer


def _can_join(step: Instr) -> bool:
    """Whether a step does anything, and does it on the device."""
    return not isinstance(step, Dealloc) and not _is_fence(step)


def _is_fence(step: Instr) -> bool:
    """Whether the host runs a step, before which the device must be done."""
    plan = step.plan if isinstance(step, (OpInstr, Stack)) else None
    return plan is not None and plan.algorithm == ON_HOST
