"""Which commands of a program must end before another begins: what they do to memory says it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import NamedTuple

from afterglow.support.lazy_dataclass import dataclass


class Span(NamedTuple):
    """Some bytes of a memory, by its name: all from `start` on, or the first of every `period`."""

    memory: str
    start: int
    size: int
    period: int = 0
    width: int = 0

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.start + self.size

    def meets(self, other: Span) -> bool:
        """Whether it has bytes in common with another span of the same memory."""
        if self.start >= other.end or other.start >= self.end:
            return False
        if not self.period or self.period != other.period:
            return True
        behind = (other.start - self.start) % self.period
        return behind < self.width or behind + other.width > self.period

    def covers(self, other: Span) -> bool:
        """Whether every byte of another span of the same memory is in it."""
        return not self.period and self.start <= other.start and other.end <= self.end


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
    span: Span
    command: int
    writes: bool


@dataclass
class _History:
    """The last uses of each memory; what was written over since is forgotten."""

    uses: dict[str, list[_Use]] = field(default_factory=dict)

    def add(self, number: int, command: Command) -> set[int]:
        """Note what a command does; which earlier ones it must wait for."""
        reads, writes = (filter(_is_some, each) for each in (command.reads, command.writes))
        given = [*((span, False) for span in reads), *((span, True) for span in writes)]
        needed = {
            use.command
            for span, is_written in given
            for use in self.uses.get(span.memory, ())
            if (is_written or use.writes) and span.meets(use.span)
        }
        for span, is_written in given:
            self._note(_Use(span, number, is_written))
        return needed

    def _note(self, use: _Use) -> None:
        uses = self.uses.setdefault(use.span.memory, [])
        if use.writes:  # whoever meets what it covers meets it too, and waits for it
            uses[:] = [each for each in uses if not use.span.covers(each.span)]
        uses.append(use)


def _is_some(span: Span) -> bool:
    return span.size > 0
