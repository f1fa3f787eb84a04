"""Steps of a program that need nothing of each other, so that one launch does them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeAlias, TypeVar

from afterglow.backends.launched.dependencies import Span
from afterglow.instr import Instr
from afterglow.support.lazy_dataclass import dataclass

SourceT = TypeVar("SourceT")
Join: TypeAlias = Callable[[Sequence[SourceT]], SourceT | None]
"""Makes one kernel of several, of which each keeps its programs; None if they cannot be one."""
FARTHEST = 8
"""Launches that a step may overtake: what it writes is in the cache still when it is read."""


@dataclass(frozen=True)
class Planned(Generic[SourceT]):
    """A step of a program, the kernel that does it, and the bytes that it reads and writes."""

    place: int
    step: Instr
    kernel: SourceT | None
    """None if the host runs it."""
    reads: Sequence[Span]
    writes: Sequence[Span]

    def conflicts_with(self, other: Planned[SourceT]) -> bool:
        """Whether one of two must have ended before the other begins."""
        mine, theirs = (*self.reads, *self.writes), (*other.reads, *other.writes)
        return _meet(self.writes, theirs) or _meet(other.writes, mine)


@dataclass
class Launched(Generic[SourceT]):
    """Steps that run at the same time, and the kernel that does them."""

    members: list[Planned[SourceT]]
    kernel: SourceT | None

    def conflicts_with(self, step: Planned[SourceT]) -> bool:
        """Whether a step must wait for one of these."""
        return any(member.conflicts_with(step) for member in self.members)


def joined(
    steps: Iterable[Planned[SourceT]], join: Join[SourceT] | None
) -> list[Launched[SourceT]]:
    """Launches of all steps: each step in the last one that can take it, else in its own.

    A step overtakes only what it has nothing to do with, and never one of the host.
    """
    found: list[Launched[SourceT]] = []
    for step in steps:
        if join is None or not _taken(found[-FARTHEST:], step, join):
            found.append(Launched([step], step.kernel))
    return found


def _taken(
    launches: Sequence[Launched[SourceT]], step: Planned[SourceT], join: Join[SourceT]
) -> bool:
    """Add a step to the last launch that can take it; whether there is one."""
    for launch in reversed(launches):
        if launch.kernel is None or step.kernel is None or launch.conflicts_with(step):
            return False
        own = [member.kernel for member in launch.members if member.kernel is not None]
        kernel = join([*own, step.kernel])
        if kernel is not None:
            launch.members.append(step)
            launch.kernel = kernel
            return True
    return False


def _meet(some: Iterable[Span], others: Sequence[Span]) -> bool:
    return any(a.memory == b.memory and a.meets(b) for a in some for b in others)
