"""The placement in which one run takes least time: exact for two devices, good for more.

Two devices: the best placement is a cheapest cut of a network, in which a task is cut off from the
device that does not compute it, and a value costs once however many tasks read it. More devices:
any two of them redistribute their tasks by such a cut, the others stay, until no two gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from afterglow.partition.problem import HOST, Edge, Placement, Problem, Task
from afterglow.support.errors import UsageError
from afterglow.support.min_cut import SINK, SOURCE, UNBOUNDED, Network

TICK = 1e-10
"""Seconds that a unit of capacity stands for."""

MOST_TASKS = 500
"""Tasks of problems that are improved from several placements; larger ones from the best."""


def assign(problem: Problem) -> Placement:
    """A placement that is at least as fast as each in which one device does all it can."""
    able = problem.computing
    first = able[:1] if len(able) == 2 else able  # two come to the best from any placement
    starts = [*dict.fromkeys(mostly_on(problem, device) for device in first)]
    if not starts or len(problem.tasks) > MOST_TASKS:
        starts = [min((*starts, mostly_on(problem)), key=problem.seconds)]
    return min((_improved(problem, start) for start in starts), key=problem.seconds)


def mostly_on(problem: Problem, *devices: int) -> Placement:
    """Each task on the first of some devices that can compute it, or else where it is fastest."""
    return tuple(_first_able(task, devices) for task in problem.tasks)


def _first_able(task: Task, devices: Sequence[int]) -> int:
    seconds = task.seconds
    if not seconds:
        raise UsageError(
            f"no device computes {task.name!r}",
            help="add a device that can: the CPU computes everything",
        )
    able = (device for device in devices if device in seconds)
    return next(able, min(seconds, key=lambda device: (seconds[device], device)))


def _improved(problem: Problem, placement: Placement) -> Placement:
    """Let pairs of devices redistribute their tasks until that gains nothing."""
    gained = True
    while gained:
        gained = False
        for pair in combinations(problem.computing, 2):
            better = _Redistribution(problem, placement, *pair).best()
            if problem.seconds(better) < problem.seconds(placement) - TICK:
                placement, gained = better, len(problem.computing) > 2
    return placement


class _Redistribution:
    """The tasks of two devices, placed anew on these two."""

    def __init__(self, problem: Problem, placement: Placement, first: int, second: int) -> None:
        self.problem, self.placement = problem, placement
        self.first, self.second = first, second
        moving = [t for t, device in enumerate(placement) if device in (first, second)]
        self.network = Network()
        self.vertex = {task: self.network.add_node() for task in moving}

    def best(self) -> Placement:
        """The placement of the cheapest cut: the source's side is computed by the first device.

        Of equally cheap ones it has the most tasks there: the host is the first of all.
        """
        tasks = self.problem.tasks
        for task, vertex in self.vertex.items():
            self._charge(vertex, *(tasks[task].seconds.get(d) for d in (self.first, self.second)))
        for edge in self.problem.edges:
            self._add(edge)
        here = self.network.cheapest_cut(preferred=self.vertex.values())
        placement = [*self.placement]
        for task, vertex in self.vertex.items():
            placement[task] = self.first if vertex in here else self.second
        return tuple(placement)

    def _charge(self, vertex: int, first: float | None, second: float | None) -> None:
        """What it costs to have a vertex on either side; None if it cannot be there."""
        self.network.connect(SOURCE, vertex, _ticks(second))
        self.network.connect(vertex, SINK, _ticks(first))

    def _add(self, edge: Edge) -> None:
        """Charge for the transfers of a value."""
        moving = [self.vertex[reader] for reader in edge.readers if reader in self.vertex]
        staying = self.problem.readers_of(edge, self.placement) - ({self.first, self.second})
        if edge.is_output and HOST in (self.first, self.second):
            moving.append(SOURCE if self.first == HOST else SINK)
        if edge.producer is not None and edge.producer in self.vertex:
            self._add_made_here(edge, self.vertex[edge.producer], moving, staying)
        elif moving:
            source = self.problem.source_of(edge, self.placement)
            self._add_read(edge, moving, source)

    def _add_made_here(
        self, edge: Edge, producer: int, moving: list[int], staying: set[int]
    ) -> None:
        first, second, crossing = self.first, self.second, self.problem.crossing
        if staying:
            sums = [sum(crossing(edge, d, to) for to in staying) for d in (first, second)]
            self._charge(producer, *sums)
        if moving:
            self._add_once(producer, moving, crossing(edge, first, second), forward=True)
            self._add_once(producer, moving, crossing(edge, second, first), forward=False)

    def _add_read(self, edge: Edge, moving: list[int], source: int) -> None:
        """Charge each of the two devices that reads a value made elsewhere, or by the host."""
        for device, side, forward in ((self.second, SOURCE, True), (self.first, SINK, False)):
            if device != source:
                cost = self.problem.crossing(edge, source, device)
                self._add_once(side, moving, cost, forward=forward)

    def _add_once(self, producer: int, readers: list[int], cost: float, *, forward: bool) -> None:
        """A cost if any reader is on the other side than the producer, the sink's if forward."""
        middle = self.network.add_node()
        ends = [(producer, middle, _ticks(cost)), *((middle, r, _ticks(None)) for r in readers)]
        for tail, head, capacity in ends:
            self.network.connect(*((tail, head) if forward else (head, tail)), capacity)


def _ticks(seconds: float | None) -> int:
    """A capacity; what cannot be costs more than anything that can."""
    return UNBOUNDED if seconds is None else round(seconds / TICK)
