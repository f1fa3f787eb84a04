"""Lifetimes of buffers: marked as short as they can be, and how much is live at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from afterglow.instr import Alloc, Buffer, Dealloc, DeclareView, Instr, Program, Region
from afterglow.support.lazy_dataclass import dataclass


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


def place_lifetimes(program: Program, groups: Sequence[Sequence[Instr]] | None = None) -> None:
    """Put every `Alloc`, `Dealloc` and view declaration where it belongs; drop unused ones.

    Of the instructions of a group, if there are any, all buffers are live while one of them runs.
    """
    groups = [[step] for step in working_steps(program)] if groups is None else groups
    last = {root: place for place, group in enumerate(groups) for root in _roots(group)}
    ending: dict[int, list[Buffer]] = {}
    for root, place in last.items():
        ending.setdefault(place, []).append(root)
    seen: set[Buffer] = set()
    body: list[Instr] = []
    for place, group in enumerate(groups):
        body.extend(mark for step in group for mark in _declarations(step, seen))
        body.extend(group)
        body.extend(Dealloc(root) for root in ending.get(place, ()))
    program.body = body


def _declarations(step: Instr, seen: set[Buffer]) -> Iterator[Instr]:
    """What has to be allocated or declared before a step, besides what was seen before."""
    for buffer in _named(step):
        root = buffer.root
        if root.region is Region.ARENA and root not in seen:
            yield Alloc(root)
            seen.add(root)
        if buffer.is_view and buffer not in seen:
            yield DeclareView(buffer)
            seen.add(buffer)


def working_steps(program: Program) -> list[Instr]:
    """The instructions without those that `place_lifetimes` puts there."""
    return [step for step in program.body if not _is_mark(step)]


def _is_mark(step: Instr) -> bool:
    """Whether a step only says what can be seen without it; the end of an alias cannot."""
    match step:
        case Dealloc(buffer):
            return not buffer.is_view
    return isinstance(step, (Alloc, DeclareView))


def _named(step: Instr) -> list[Buffer]:
    match step:
        case Dealloc(buffer):
            return [buffer]
    return [buffer for _, buffer in step.accesses()]


def _roots(steps: Sequence[Instr]) -> Iterator[Buffer]:
    for step in steps:
        for _, buffer in step.accesses():
            if buffer.root.region is Region.ARENA:
                yield buffer.root
