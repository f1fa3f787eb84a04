"""Stages: consecutive tasks on each device, exactly the best of all that there are.

Two objectives: least time of the slowest stage, which decides how many requests pass a pipeline in
a second, or least time of all stages together. Each device gets one stage or none, of which the
weights and what is alive fit its memory. Devices come in any order, if they are few.

Found by dynamic programming over the sets of devices that have their stages, and the boundaries up
to which tasks are placed: what a stage costs depends on its device, its first and its last task.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from afterglow.partition.problem import HOST, Placement, Problem
from afterglow.support.lazy_dataclass import dataclass

MOST_BOUNDARIES = 1024
"""Boundaries that are tried: with more tasks, stages end at some of them only."""
MOST_ORDERED = 4
"""Devices that come in any order; more of them come in the given one."""

Table: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
"""A number for each stage, by the boundaries at which it begins and ends."""
Combine: TypeAlias = Callable[[Table, Table], Table]


def balanced_stages(problem: Problem) -> Placement | None:
    """Stages of which the slowest is fastest, and among those the least time of all together."""
    tables = stage_tables(problem)
    limit = _Search(problem, tables, np.maximum).cost * (1 + 1e-9)
    within = [np.where(table <= limit, table, np.inf) for table in tables]
    return _Search(problem, within, np.add).placement()


def fastest_stages(problem: Problem) -> Placement | None:
    """Stages that take least time together; None if no stages fit, or can be computed."""
    return _Search(problem, stage_tables(problem), np.add).placement()


def stage_tables(problem: Problem) -> list[Table]:
    """Seconds of each stage on each device that computes: infinite for what it cannot hold."""
    costs = _StageCosts(problem)
    return [costs.table(device) for device in problem.computing]


def boundaries_of(problem: Problem) -> list[int]:
    """The numbers of tasks before which stages may begin or end."""
    count = len(problem.tasks)
    if count <= MOST_BOUNDARIES:
        return list(range(count + 1))
    return sorted({*np.linspace(0, count, MOST_BOUNDARIES + 1).astype(int).tolist()})


class _StageCosts:
    """What stages take and hold, for all pairs of boundaries at once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.boundaries = boundaries_of(problem)
        self.held = self._held()

    def table(self, device: int) -> Table:
        """The seconds of all stages on a device."""
        problem, count = self.problem, len(self.boundaries)
        lacks = self._sums(device not in task.seconds for task in problem.tasks)
        seconds = self._sums(task.seconds.get(device, 0.0) for task in problem.tasks)
        table = seconds + self._received(device) + self._sent(device)
        table[(lacks > 0) | (self.held > problem.memory_of(device))] = np.inf
        table[np.tri(count, k=-1, dtype=bool)] = np.inf  # what would end before it begins
        np.fill_diagonal(table, 0.0)
        return table

    def _sums(self, numbers: Iterable[float]) -> Table:
        """The sum of what tasks have, over each stage."""
        before = np.concatenate(([0.0], np.cumsum(np.fromiter(numbers, float))))[self.boundaries]
        sums: Table = before[None, :] - before[:, None]
        return sums

    def _sent(self, device: int) -> Table:
        """The time in which outputs go to the host."""
        problem = self.problem
        sent = [0.0] * len(problem.tasks)
        for edge in problem.edges:
            if edge.is_output and edge.producer is not None:
                sent[edge.producer] += problem.crossing(edge, device, HOST)
        return self._sums(sent)

    def _received(self, device: int) -> Table:
        """The time in which values that a stage reads arrive from elsewhere, each once."""
        change = self._zeros()
        for edge in self.problem.edges:
            if device == HOST and edge.producer is None:
                continue
            made = -1 if edge.producer is None else edge.producer
            self._count_once(change, made, edge.readers, self.problem.arrival(edge, device))
        return np.cumsum(change, axis=1)

    def _held(self) -> Table:
        """The bytes of weights, each once, of state, and of what is alive at the most."""
        problem = self.problem
        users: list[list[int]] = [[] for _ in problem.weights]
        for number, task in enumerate(problem.tasks):
            for weight in task.weights:
                users[weight].append(number)
        change = self._zeros()
        for weight, tasks in enumerate(users):
            self._count_once(change, -1, tasks, problem.weights[weight])
        states = self._sums(task.memory for task in problem.tasks)
        held: Table = np.cumsum(change, axis=1) + states + self._peaks()
        return held

    def _peaks(self) -> Table:
        """The most bytes that are alive at once during each stage."""
        live, bounds = self.problem.live, self.boundaries
        peaks = self._zeros()
        most = [max(live[a:b], default=0) for a, b in pairwise(bounds)]
        for first in range(len(most)):
            peaks[first, first + 1 :] = np.maximum.accumulate(most[first:])
        return peaks

    def _zeros(self) -> Table:
        return np.zeros((len(self.boundaries), len(self.boundaries)))

    def _count_once(self, change: Table, made: int, readers: Sequence[int], amount: float) -> None:
        """Add an amount to stages behind a task that have a reader: where the first one ends."""
        before = made
        for reader in sorted({*readers}):
            first = bisect_right(self.boundaries, before)
            last = bisect_right(self.boundaries, reader)
            if last < len(self.boundaries):
                change[first:last, last] += amount
            before = reader


@dataclass
class _Row:
    """The best stages up to each boundary, of a set of devices."""

    costs: Table
    devices: Any
    """The device of the last stage."""
    firsts: Any
    """Where the last stage begins."""

    @staticmethod
    def empty(count: int) -> _Row:
        """What there is before any of the devices."""
        return _Row(np.full(count, np.inf), np.zeros(count, int), np.zeros(count, int))

    def improve(self, costs: Table, device: int, firsts: Any) -> None:
        """Take other stages where they are better."""
        better = costs < self.costs
        self.costs[better] = costs[better]
        self.devices[better] = device
        self.firsts[better] = firsts[better]


class _Search:
    """The best way to cut the line of tasks, by tables of what stages cost."""

    def __init__(self, problem: Problem, tables: Sequence[Table], combine: Combine) -> None:
        self.problem, self.tables, self.combine = problem, tables, combine
        self.boundaries = boundaries_of(problem)
        self.rows = {placed: _Row.empty(len(self.boundaries)) for placed in self._sets()}
        self.rows[0].costs[0] = 0.0
        for placed in self.rows:
            for device in self._next_devices(placed):
                self._extend(placed, device)

    @property
    def cost(self) -> float:
        """What the best stages of all tasks cost."""
        return float(self.rows[self._all].costs[-1])

    def placement(self) -> Placement | None:
        """The device of each task."""
        if np.isinf(self.cost):
            return None
        devices = [0] * len(self.problem.tasks)
        placed, last = self._all, len(self.boundaries) - 1
        while placed:
            row = self.rows[placed]
            number, first = int(row.devices[last]), int(row.firsts[last])
            start, end = self.boundaries[first], self.boundaries[last]
            devices[start:end] = [self.problem.computing[number]] * (end - start)
            placed, last = placed ^ (1 << number), first
        return tuple(devices)

    @property
    def _all(self) -> int:
        """The set of all devices."""
        return (1 << len(self.tables)) - 1

    @property
    def _is_ordered(self) -> bool:
        """Whether devices come in the given order alone."""
        return len(self.tables) > MOST_ORDERED

    def _sets(self) -> Iterable[int]:
        """The sets of devices that may be placed first, each after those that it contains."""
        if self._is_ordered:
            return [(1 << count) - 1 for count in range(len(self.tables) + 1)]
        return range(1 << len(self.tables))

    def _next_devices(self, placed: int) -> list[int]:
        """The devices that may come next, of those that are not placed."""
        left = [device for device in range(len(self.tables)) if not placed >> device & 1]
        return left[:1] if self._is_ordered else left

    def _extend(self, placed: int, device: int) -> None:
        """Try all stages of a device behind those of the devices that are placed."""
        costs = self.combine(self.rows[placed].costs[:, None], self.tables[device])
        firsts = np.argmin(costs, axis=0)
        best = np.take_along_axis(costs, firsts[None, :], axis=0)[0]
        self.rows[placed | 1 << device].improve(best, device, firsts)
