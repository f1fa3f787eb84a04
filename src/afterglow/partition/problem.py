"""What a partition is chosen by: tasks, the values between them, and what devices take for both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from math import inf

from afterglow.support.lazy_dataclass import dataclass

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
    """Bytes of state that it keeps on its device from run to run."""
    weights: tuple[int, ...] = ()
    """The constants that it reads, by number: tasks on one device share them."""


@dataclass(frozen=True)
class Edge:
    """A value: it crosses once to each other device that reads it."""

    nbytes: int
    producer: int | None
    """The task that computes it, None for an input of the model."""
    readers: tuple[int, ...]
    is_output: bool = False
    name: str = ""


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
    weights: Sequence[int] = ()
    """The bytes of each constant."""
    memories: Sequence[int | None] = ()
    """The bytes that each device has; None, or nothing at all, for no limit."""

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

    def transfers(
        self, placement: Sequence[int], edges: Iterable[Edge] | None = None
    ) -> Iterator[tuple[Edge, int, int]]:
        """What crosses, of all values or of some, from where and where to."""
        for edge in self.edges if edges is None else edges:
            source = self.source_of(edge, placement)
            for to in sorted(self.readers_of(edge, placement) - {source}):
                yield edge, source, to

    def seconds(self, placement: Sequence[int]) -> float:
        """The time of one run in which nothing overlaps."""
        computing = sum(
            task.seconds[device] for task, device in zip(self.tasks, placement, strict=True)
        )
        return computing + self._crossing(self.edges, placement)

    def share(self, placement: Sequence[int], task: int) -> float:
        """The part of that time that a task has to do with: computing, and what it passes on."""
        computing = self.tasks[task].seconds[placement[task]]
        return computing + self._crossing(self.edges_of[task], placement)

    def _crossing(self, edges: Iterable[Edge], placement: Sequence[int]) -> float:
        return sum(self.crossing(*each) for each in self.transfers(placement, edges))

    def allows(self, placement: Sequence[int]) -> bool:
        """Whether each task is on a device that can compute it."""
        return all(d in task.seconds for task, d in zip(self.tasks, placement, strict=True))

    @cached_property
    def computing(self) -> list[int]:
        """The devices that can compute some task."""
        return sorted({device for task in self.tasks for device in task.seconds})

    def memory_of(self, device: int) -> float:
        """The bytes that a device has; infinite without a limit."""
        given = self.memories[device] if self.memories else None
        return inf if given is None else given

    @cached_property
    def live(self) -> list[int]:
        """The bytes of values that are alive while each task runs, if tasks run in order."""
        change = [0] * (len(self.tasks) + 1)
        for edge in self.edges:
            ends = [*edge.readers, *([] if edge.producer is None else [edge.producer])]
            if ends:
                change[min(ends)] += edge.nbytes
                change[max(ends) + 1] -= edge.nbytes
        return list(accumulate(change[:-1]))

    def held(self, placement: Sequence[int]) -> list[int]:
        """The bytes that each device needs."""
        own: list[list[int]] = [[] for _ in self.devices]
        for number, device in enumerate(placement):
            own[device].append(number)
        return [self.held_by(numbers) for numbers in own]

    def held_by(self, numbers: Iterable[int]) -> int:
        """The bytes that tasks need: weights, state, and the most that is alive at once."""
        weights: set[int] = set()
        states, live = 0, 0
        for number in numbers:
            weights.update(self.tasks[number].weights)
            states += self.tasks[number].memory
            live = max(live, self.live[number])
        return sum(self.weights[weight] for weight in weights) + states + live

    def fits(self, placement: Sequence[int]) -> bool:
        """Whether no device needs more memory than it has."""
        return all(need <= self.memory_of(d) for d, need in enumerate(self.held(placement)))

    def load(self, placement: Sequence[int]) -> float:
        """The time of the busiest device in a run: how long a pipeline takes for each request."""
        return max(self.busy(placement), default=0.0)

    def busy(self, placement: Sequence[int]) -> list[float]:
        """The time of each device in a run, with that in which values come to it, and outputs go.

        Values take the time of the slowest way to their reader, outputs that of the way home.
        """
        busy = [0.0] * len(self.devices)
        for task, device in zip(self.tasks, placement, strict=True):
            busy[device] += task.seconds[device]
        for edge in self.edges:
            source = self.source_of(edge, placement)
            for to in {placement[reader] for reader in edge.readers} - {source}:
                busy[to] += self.arrival(edge, to)
            if edge.is_output:
                busy[source] += self.crossing(edge, source, HOST)
        return busy

    def arrival(self, edge: Edge, device: int) -> float:
        """Seconds for a value to come to a device, from wherever that takes longest."""
        others = (d for d in range(len(self.devices)) if d != device)
        return max((self.crossing(edge, other, device) for other in others), default=0.0)

    @cached_property
    def follows(self) -> list[list[int]]:
        """The tasks from which each task reads."""
        read: list[set[int]] = [set() for _ in self.tasks]
        for edge in self.edges:
            for reader in edge.readers:
                read[reader].update(() if edge.producer is None else (edge.producer,))
        return [sorted(tasks) for tasks in read]

    @cached_property
    def edges_of(self) -> list[list[Edge]]:
        """The values that each task makes or reads."""
        found: list[list[Edge]] = [[] for _ in self.tasks]
        for edge in self.edges:
            ends = {*edge.readers} if edge.producer is None else {edge.producer, *edge.readers}
            for task in ends:
                found[task].append(edge)
        return found
