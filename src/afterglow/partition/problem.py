"""What a partition is chosen by: tasks, the values between them, and what devices take for both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

HOST = 0
"""The device that inputs come from and outputs go to."""

Placement = tuple[int, ...]
"""The device of each task, by number."""


@dataclass(frozen=True)
class Task:
    """Something that one device computes as a whole."""

    name: str
    seconds: Mapping[int, float]
    """The time it takes on each device that can compute it."""
    memory: int = 0
    """Bytes that it keeps on its device from run to run."""


@dataclass(frozen=True)
class Edge:
    """A value: it crosses once to each other device that reads it."""

    nbytes: int
    producer: int | None
    """The task that computes it, None for an input of the model."""
    readers: tuple[int, ...]
    is_output: bool = False


@dataclass(frozen=True)
class Link:
    """The way from one device to another."""

    latency: float
    """Seconds that each transfer takes besides."""
    bandwidth: float
    """Bytes a second."""

    def seconds(self, nbytes: int) -> float:
        """The time of one transfer."""
        return self.latency + nbytes / self.bandwidth


@dataclass(frozen=True)
class Problem:
    """Tasks in topological order, on devices of which the first is the host."""

    devices: Sequence[str]
    tasks: Sequence[Task]
    edges: Sequence[Edge]
    links: Mapping[tuple[int, int], Link]
    """The ways between different devices, by their numbers."""

    def crossing(self, edge: Edge, source: int, to: int) -> float:
        """Seconds for a value to come from one device to another."""
        return 0.0 if source == to else self.links[source, to].seconds(edge.nbytes)

    def source_of(self, edge: Edge, placement: Sequence[int]) -> int:
        """The device on which a value is made."""
        return HOST if edge.producer is None else placement[edge.producer]

    def readers_of(self, edge: Edge, placement: Sequence[int]) -> set[int]:
        """The devices on which a value is read."""
        ends = {HOST} if edge.is_output else set()
        return ends | {placement[reader] for reader in edge.readers}

    def transfers(self, placement: Sequence[int]) -> Iterator[tuple[Edge, int, int]]:
        """What crosses, from where and where to."""
        for edge in self.edges:
            source = self.source_of(edge, placement)
            for to in sorted(self.readers_of(edge, placement) - {source}):
                yield edge, source, to

    def seconds(self, placement: Sequence[int]) -> float:
        """The time of one run in which nothing overlaps."""
        computing = sum(
            task.seconds[device] for task, device in zip(self.tasks, placement, strict=True)
        )
        return computing + sum(self.crossing(*crossing) for crossing in self.transfers(placement))

    def allows(self, placement: Sequence[int]) -> bool:
        """Whether each task is on a device that can compute it."""
        return all(d in task.seconds for task, d in zip(self.tasks, placement, strict=True))

    @cached_property
    def edges_of(self) -> list[list[Edge]]:
        """The values that each task makes or reads."""
        found: list[list[Edge]] = [[] for _ in self.tasks]
        for edge in self.edges:
            ends = {*edge.readers} if edge.producer is None else {edge.producer, *edge.readers}
            for task in ends:
                found[task].append(edge)
        return found
