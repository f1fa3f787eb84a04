"""A discrete-event simulation of requests that pass through the stages of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TypeAlias

from afterglow.partition.cluster import ClusterPlan
from afterglow.partition.problem import Link


@dataclass(frozen=True)
class Load:
    """Requests: so many, and so many of them in flight at a time."""

    requests: int
    in_flight: int


@dataclass(frozen=True)
class Failure:
    """A node that dies at some second, and is back some seconds later."""

    node: int
    at: float
    lasts: float = inf

    def covers(self, now: float) -> bool:
        """Whether the node is dead at a time."""
        return self.at <= now < self.at + self.lasts


@dataclass(frozen=True)
class Simulation:
    """What a simulation saw."""

    seconds: float
    latencies: tuple[float, ...]
    """Of all requests, in the order in which they were answered."""
    repeated: int
    """How often a request began again because a node died."""
    busy: tuple[float, ...]
    """The share of the time in which each node computed."""

    @property
    def throughput(self) -> float:
        """Requests a second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """The latency that this share of the requests did not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def simulate(
    plan: ClusterPlan,
    link: Link,
    load: Load,
    failures: Sequence[Failure] = (),
    *,
    overhead: float = 0.0,
    overlap: bool = True,
) -> Simulation:
    """Run requests through the stages of a plan, event by event.

    A node computes one request at a time, in the order in which they come; it passes results on
    by a link of its own, one after the other. A request goes to the replica that is done with it
    first. What a node has when it dies begins again at the first stage; while no replica of a
    stage is alive, requests wait for one. `overhead` is what each call of a stage costs its node
    besides, in seconds. Without `overlap` a node does not compute while it passes something on,
    as where both need the same cores.
    """
    return _Simulated(plan, link, load, failures, overhead, overlap).run()


_Event: TypeAlias = tuple[float, int, Callable[[float], None]]
"""When something happens, its number among all events, and what."""


class _Simulated:
    """When nodes have time, and what happens next."""

    def __init__(
        self,
        plan: ClusterPlan,
        link: Link,
        load: Load,
        failures: Sequence[Failure],
        overhead: float,
        overlap: bool,
    ) -> None:
        self.plan, self.load, self.overhead = plan, load, overhead
        transfers = [link.seconds(stage.output_bytes) for stage in plan.stages]
        self.beside = transfers if overlap else [0.0] * len(transfers)
        self.between = [0.0] * len(transfers) if overlap else transfers
        self.failures = {failure.node: failure for failure in failures}
        self.replicas = [plan.replicas(stage) for stage in range(len(plan.stages))]
        self.computes_until = [0.0] * len(plan.nodes)
        self.sends_until = [0.0] * len(plan.nodes)
        self.busy = [0.0] * len(plan.nodes)
        self.began: dict[int, float] = {}
        self.latencies: list[float] = []
        self.repeated = 0
        self._events: list[_Event] = []
        self._numbers = count()

    def run(self) -> Simulation:
        """All requests, until the last is answered."""
        for request in range(min(self.load.in_flight, self.load.requests)):
            self._at(0.0, partial(self._arrive, request, 0))
        now = 0.0
        while self._events:
            now, _, happen = heappop(self._events)
            happen(now)
        busy = tuple(seconds / now for seconds in self.busy)
        return Simulation(now, tuple(self.latencies), self.repeated, busy)

    def _at(self, time: float, happen: Callable[[float], None]) -> None:
        heappush(self._events, (time, next(self._numbers), happen))

    def _arrive(self, request: int, stage: int, now: float) -> None:
        """Queue a request at the replica of a stage that is done with it first."""
        self.began.setdefault(request, now)
        node = min(self.replicas[stage], key=lambda n: self._end(stage, n, now))
        end = self._end(stage, node, now)
        self.busy[node] += self._seconds(stage, node)
        self.computes_until[node] = end
        self._at(end, partial(self._computed, request, stage, node))

    def _seconds(self, stage: int, node: int) -> float:
        computing = self.plan.stages[stage].seconds / self.plan.nodes[node].speed
        return computing + self.between[stage] + self.overhead

    def _end(self, stage: int, node: int, now: float) -> float:
        """When a node would be done with a request that comes now."""
        start = max(now, self.computes_until[node])
        failure = self.failures.get(node)
        if failure is not None and failure.covers(now):
            start = failure.at + failure.lasts
        return start + self._seconds(stage, node)

    def _computed(self, request: int, stage: int, node: int, now: float) -> None:
        """Pass a result on; what was on a node that died meanwhile begins again."""
        failure = self.failures.get(node)
        if failure is not None and failure.covers(now):
            self.repeated += 1
            self.computes_until[node] = failure.at
            self._arrive(request, 0, now)
            return
        sent = self.sends_until[node] = max(now, self.sends_until[node]) + self.beside[stage]
        last = stage + 1 == len(self.plan.stages)
        arrive = (
            partial(self._answer, request) if last else partial(self._arrive, request, stage + 1)
        )
        self._at(sent, arrive)

    def _answer(self, request: int, now: float) -> None:
        """Note an answer; another request takes the place of this one."""
        self.latencies.append(now - self.began.pop(request))
        following = len(self.latencies) + self.load.in_flight - 1
        if following < self.load.requests:
            self._at(now, partial(self._arrive, following, 0))
