"""Give every buffer of the arena an address, so that the arena is small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afterglow.instr import Alloc, Buffer, Dealloc, Program

ALIGNMENT = 64
"""Buffers start at multiples of this many bytes: a cache line, and the widest vector there is."""


@dataclass(frozen=True)
class Lifetime:
    """A buffer and the instructions between which it is live, both ends included."""

    buffer: Buffer
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes, rounded up to the alignment."""
        return -(-self.buffer.type.nbytes // ALIGNMENT) * ALIGNMENT

    def meets(self, other: Lifetime) -> bool:
        """Whether both are live at some time."""
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True)
class MemoryPlan:
    """What planning gave: the arena, and the largest sum of bytes live at once, which bounds it."""

    arena_bytes: int
    lower_bound_bytes: int
    total_bytes: int
    """The sum over all buffers: the arena without any sharing."""


def plan_memory(program: Program) -> MemoryPlan:
    """Set the address of every buffer and the size of the arena."""
    lifetimes = lifetimes_of(program)
    best: dict[Buffer, int] = {}
    arena = -1
    for order in (_by_size, _by_area, _by_start):
        addresses = _place(sorted(lifetimes, key=order))
        size = max((addresses[life.buffer] + life.size for life in lifetimes), default=0)
        if arena < 0 or size < arena:
            best, arena = addresses, size
    for buffer, address in best.items():
        buffer.address = address
    program.arena_bytes = max(arena, 0)
    total = sum(life.size for life in lifetimes)
    return MemoryPlan(program.arena_bytes, lower_bound(lifetimes), total)


def lifetimes_of(program: Program) -> list[Lifetime]:
    """The lifetimes that the program's allocs and deallocs mark, in order of allocation."""
    starts: dict[Buffer, int] = {}
    ends: dict[Buffer, int] = {}
    for index, step in enumerate(program.body):
        match step:
            case Alloc(buffer):
                starts[buffer] = index
            case Dealloc(buffer):
                ends[buffer] = index
    last = len(program.body)
    return [Lifetime(buffer, start, ends.get(buffer, last)) for buffer, start in starts.items()]


def lower_bound(lifetimes: Sequence[Lifetime]) -> int:
    """The largest sum of bytes live at once: no arena can be smaller."""
    changes: dict[int, int] = {}
    for life in lifetimes:
        changes[life.start] = changes.get(life.start, 0) + life.size
        changes[life.end + 1] = changes.get(life.end + 1, 0) - life.size
    live = peak = 0
    for _, change in sorted(changes.items()):
        live += change
        peak = max(peak, live)
    return peak


def _by_size(life: Lifetime) -> tuple[int, ...]:
    return (-life.size, life.start)


def _by_area(life: Lifetime) -> tuple[int, ...]:
    return (-life.size * (life.end - life.start), life.start)


def _by_start(life: Lifetime) -> tuple[int, ...]:
    return (life.start, -life.size)


_Order = Callable[[Lifetime], tuple[int, ...]]


def _place(lifetimes: Sequence[Lifetime]) -> dict[Buffer, int]:
    """Give each in turn the lowest address at which it fits beside those placed before."""
    placed: list[tuple[int, Lifetime]] = []
    addresses: dict[Buffer, int] = {}
    for life in lifetimes:
        address = 0
        for taken, other in placed:  # sorted by address
            if not life.meets(other):
                continue
            if address + life.size <= taken:
                break
            address = max(address, taken + other.size)
        addresses[life.buffer] = address
        placed.append((address, life))
        placed.sort(key=lambda entry: entry[0])
    return addresses
