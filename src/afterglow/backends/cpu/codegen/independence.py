"""Which neighbouring instructions of a planned program may run at the same time.

Two may if neither writes memory that the other touches, which their addresses tell: it is nothing
that a program has to say, and no plan of memory can make it wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from afterglow.instr import Access, Buffer, Instr, Region
from afterglow.instr.overlap import overlap

Accesses = Sequence[tuple[Access, Buffer]]


def independent_runs(instructions: Iterable[Instr], most: int) -> list[list[Instr]]:
    """Instructions in their order, cut into runs of at most `most` that are independent."""
    runs: list[list[Instr]] = []
    known: list[Accesses] = []
    """The accesses of the last run's members."""
    for instruction in instructions:
        own = list(instruction.accesses())
        if runs and len(known) < most and not any(_meet(own, other) for other in known):
            runs[-1].append(instruction)
        else:
            runs.append([instruction])
            known = []
        known.append(own)
    return runs


def _meet(some: Accesses, others: Accesses) -> bool:
    """Whether one side writes memory that the other touches."""
    return any(
        (access.writes or other.writes) and _share_memory(buffer, touched)
        for access, buffer in some
        for other, touched in others
    )


def _share_memory(a: Buffer, b: Buffer) -> bool:
    if a.root is b.root:
        return overlap(a, b)
    if a.root.region is not Region.ARENA or b.root.region is not Region.ARENA:
        return False  # each array of the caller, and each constant, is for itself
    (begin, end), (other_begin, other_end) = _span(a.root), _span(b.root)
    return a.root.memory == b.root.memory and begin < other_end and other_begin < end


def _span(root: Buffer) -> tuple[int, int]:
    """The first byte of the arena that a whole buffer has, and one past the last."""
    assert root.address is not None, "the program is not planned"
    return root.address, root.address + root.type.nbytes
