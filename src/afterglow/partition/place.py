"""The placement of tasks for an objective, within the memory of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

from afterglow.memory.picture import bytes_text
from afterglow.partition.assign import MOST_TASKS, assign, mostly_on
from afterglow.partition.config import THROUGHPUT
from afterglow.partition.problem import Placement, Problem, Task
from afterglow.partition.stages import balanced_stages, fastest_stages
from afterglow.support.errors import MemoryLimitError

MOST_PRICES, PRICE_GROWTH = 12, 4
"""How often the price of memory is raised, and by what factor."""


def place(problem: Problem, objective: str) -> Placement:
    """The best placement that is found, and fits: never worse than a device that does all it can.

    For the time of one run it is the best of all if there are two devices with memory enough. For
    throughput it is the best pipeline of consecutive tasks, or what is faster without being one.
    """
    cost: Callable[[Placement], float] = problem.seconds
    candidates = [*_by_tasks(problem)]
    if objective == THROUGHPUT:
        cost = problem.load
        candidates += filter(None, [balanced_stages(problem)])
    fitting = [placement for placement in candidates if problem.fits(placement)]
    if not fitting:
        raise refusal(problem)
    return min(fitting, key=cost)


def _by_tasks(problem: Problem) -> Iterator[Placement]:
    """Placements for a short time of a run; not all of them fit."""
    best = assign(problem)
    yield best
    yield from (
        mostly_on(problem, *pair) for pair in product(range(len(problem.devices)), repeat=2)
    )
    if problem.fits(best):
        return
    found = [fastest_stages(problem)]
    if len(problem.tasks) <= MOST_TASKS or len(problem.computing) == 2:  # or it takes long
        found.append(_by_price(problem))
    yield from (_settled(problem, each) for each in found if each is not None)


def _by_price(problem: Problem) -> Placement | None:
    """A placement found by charging for memory where there is too little, ever more."""
    prices = [0.0] * len(problem.devices)
    start = problem.seconds(assign(problem)) / max(1, 1000 * sum(problem.weights))
    for _ in range(MOST_PRICES):
        tasks = [_charged(problem, task, prices) for task in problem.tasks]
        placement = assign(replace(problem, tasks=tasks))
        held = problem.held(placement)
        full = [d for d, need in enumerate(held) if need > problem.memory_of(d)]
        if not full:
            return placement
        for device in full:
            prices[device] = PRICE_GROWTH * prices[device] or start
    return None


def _charged(problem: Problem, task: Task, prices: list[float]) -> Task:
    size = task.memory + sum(problem.weights[weight] for weight in task.weights)
    return replace(task, seconds={d: s + size * prices[d] for d, s in task.seconds.items()})


def _settled(problem: Problem, placement: Placement) -> Placement:
    """Move single tasks as long as that gains time, and what devices hold still fits."""
    if not problem.fits(placement):
        return placement
    holding = _Holding(problem, placement)
    gained = True
    while gained:
        gained = False
        for task in range(len(placement)):
            for device in problem.tasks[task].seconds:
                gained |= holding.move(task, device)
    return tuple(holding.devices)


class _Holding:
    """A placement that fits, and what its devices hold, as tasks are moved.

    Of values, a device keeps the room that it once needed: to find less would take longer.
    """

    def __init__(self, problem: Problem, placement: Placement) -> None:
        self.problem, self.devices = problem, [*placement]
        self.held = problem.held(placement)
        self.live = [0] * len(problem.devices)
        self.uses: list[Counter[int]] = [Counter() for _ in problem.devices]
        for task, device in enumerate(placement):
            self.uses[device].update(problem.tasks[task].weights)
            self.live[device] = max(self.live[device], problem.live[task])

    def move(self, task: int, device: int) -> bool:
        """Move a task to a device if that gains time and fits; whether it did."""
        before = self.devices[task]
        if device == before:
            return False
        old, added = self.problem.share(self.devices, task), self._added(task, device)
        self.devices[task] = device
        gains = self.problem.share(self.devices, task) < old * (1 - 1e-9)
        if not gains or self.held[device] + added > self.problem.memory_of(device):
            self.devices[task] = before
            return False
        self._keep(task, before, device, added)
        return True

    def _added(self, task: int, device: int) -> int:
        """The bytes more that a device would hold with a task."""
        weights = [w for w in self.problem.tasks[task].weights if not self.uses[device][w]]
        more = max(0, self.problem.live[task] - self.live[device])
        own = sum(self.problem.weights[weight] for weight in weights)
        return own + self.problem.tasks[task].memory + more

    def _keep(self, task: int, before: int, device: int, added: int) -> None:
        weights = self.problem.tasks[task].weights
        self.held[device] += added
        self.live[device] = max(self.live[device], self.problem.live[task])
        self.uses[device].update(weights)
        self.uses[before].subtract(weights)
        gone = (weight for weight in weights if not self.uses[before][weight])
        self.held[before] -= sum(self.problem.weights[weight] for weight in gone)
        self.held[before] -= self.problem.tasks[task].memory


def refusal(problem: Problem) -> MemoryLimitError:
    """The error about devices that have too little memory, however tasks are placed."""
    alone = [problem.held_by([number]) for number in range(len(problem.tasks))]
    largest = max(range(len(alone)), key=alone.__getitem__)
    sizes = ", ".join(
        f"{problem.devices[device]} {_size_text(problem.memories[device])}"
        for device in problem.computing
    )
    return MemoryLimitError(
        f"the model needs {bytes_text(problem.held_by(range(len(alone))))} for weights and values, "
        f"{bytes_text(alone[largest])} of it for {problem.tasks[largest].name!r} alone: no "
        "placement was found that fits the devices",
        help=f"they have {sizes}: add a device, or allow more memory",
    )


def _size_text(memory: int | None) -> str:
    return "any" if memory is None else bytes_text(memory)
