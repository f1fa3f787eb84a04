"""Which commands of a program must end before another begins: what they do to memory says it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Span(NamedTuple):
    """Some bytes of a memory, by its name."""

    memory: str
    start: int
    size: int

    def meets(self, start: int, end: int) -> bool:
        """Whether it has bytes in common with a range."""
        return self.start < end and start < self.start + self.size


@dataclass(frozen=True)
class Command:
    """What a command reads and writes."""

    reads: Sequence[Span] = ()
    writes: Sequence[Span] = ()


def dependencies(commands: Sequence[Command]) -> list[tuple[int, ...]]:
    """For each command the earlier ones, by number, that it must wait for.

    It waits for who wrote what it reads or writes, and for who reads what it writes. Those that
    another of them waits for anyhow are left out.
    """
    history = _History()
    before: list[int] = []
    """Of each command all that end before it, as bits."""
    found = []
    for number, command in enumerate(commands):
        needed = history.add(number, command)
        direct, covered = [], 0
        for each in sorted(needed, reverse=True):
            if not covered >> each & 1:
                direct.append(each)
                covered |= before[each] | 1 << each
        before.append(covered)
        found.append(tuple(reversed(direct)))
    return found


def is_chain(waits: Iterable[Sequence[int]]) -> bool:
    """Whether each command waits for the one before, so that no two can run at once."""
    return all(number == 0 or number - 1 in each for number, each in enumerate(waits))


class _Use(NamedTuple):
    start: int
    end: int
    command: int
    writes: bool


@dataclass
class _History:
    """The last uses of each memory; what was written over since is forgotten."""

    uses: dict[str, list[_Use]] = field(default_factory=dict)

    def add(self, number: int, command: Command) -> set[int]:
        """Note what a command does; which earlier ones it must wait for."""
        needed: set[int] = set()
        for span in filter(_is_some, command.reads):
            uses = self.uses.get(span.memory, ())
            needed |= {use.command for use in uses if use.writes and span.meets(use.start, use.end)}
        for span in filter(_is_some, command.writes):
            uses = self.uses.get(span.memory, ())
            needed |= {use.command for use in uses if span.meets(use.start, use.end)}
        for span in filter(_is_some, command.reads):
            self._note(span, number, writes=False)
        for span in filter(_is_some, command.writes):
            self._note(span, number, writes=True)
        return needed

    def _note(self, span: Span, number: int, *, writes: bool) -> None:
        start, end = span.start, span.start + span.size
        uses = self.uses.setdefault(span.memory, [])
        if writes:  # whoever meets what it covers meets it too, and waits for it
            uses[:] = [use for use in uses if not (start <= use.start and use.end <= end)]
        uses.append(_Use(start, end, number, writes))


def _is_some(span: Span) -> bool:
    return span.size > 0
