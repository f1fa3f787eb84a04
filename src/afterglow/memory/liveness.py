"""When each buffer of the arena is live, and how much is live at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from afterglow.instr import Alloc, Buffer, Dealloc, Program


@dataclass(frozen=True)
class Lifetime:
    """Bytes, rounded up to the alignment, and when they are needed; both ends are included."""

    start: int
    end: int
    size: int

    @property
    def length(self) -> int:
        """How long it is."""
        return self.end - self.start + 1

    def meets(self, other: Lifetime) -> bool:
        """Whether both are live at some time."""
        return self.start <= other.end and other.start <= self.end


def lifetimes_of(program: Program, alignment: int) -> dict[Buffer, Lifetime]:
    """What the program's allocs and deallocs mark, in order of allocation."""
    starts: dict[Buffer, int] = {}
    ends: dict[Buffer, int] = {}
    for index, step in enumerate(program.body):
        match step:
            case Alloc(buffer):
                starts[buffer] = index
            case Dealloc(buffer):
                ends[buffer] = index
    last = len(program.body)
    return {
        buffer: Lifetime(start, ends.get(buffer, last), aligned(buffer.type.nbytes, alignment))
        for buffer, start in starts.items()
    }


def lower_bound(lifetimes: Iterable[Lifetime]) -> int:
    """The largest sum of bytes live at once: no arena can be smaller."""
    return peak(lifetimes)[0]


def peak(lifetimes: Iterable[Lifetime]) -> tuple[int, int]:
    """The largest sum of bytes live at once, and the first time at which it is reached."""
    changes: dict[int, int] = {}
    for life in lifetimes:
        changes[life.start] = changes.get(life.start, 0) + life.size
        changes[life.end + 1] = changes.get(life.end + 1, 0) - life.size
    live = highest = when = 0
    for time, change in sorted(changes.items()):
        live += change
        if live > highest:
            highest, when = live, time
    return highest, when


def aligned(count: int, alignment: int) -> int:
    """The next multiple of the alignment."""
    return -(-count // alignment) * alignment
