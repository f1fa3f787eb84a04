"""The placement of tasks for an objective, within the memory of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

from afterglow.memory.picture import bytes_text
from afterglow.partition.assign import assign, mostly_on
from afterglow.partition.config import THROUGHPUT
from afterglow.partition.problem import Placement, Problem, Task
from afterglow.partition.stages import balanced_stages, fastest_stages
from afterglow.support.errors import MemoryLimitError

MOST_PRICES = 24
"""How often the price of memory is doubled."""


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
    found = [_by_price(problem), fastest_stages(problem)]
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
            prices[device] = 2 * prices[device] or start
    return None


def _charged(problem: Problem, task: Task, prices: list[float]) -> Task:
    size = task.memory + sum(problem.weights[weight] for weight in task.weights)
    return replace(task, seconds={d: s + size * prices[d] for d, s in task.seconds.items()})


def _settled(problem: Problem, placement: Placement) -> Placement:
    """Move single tasks as long as that gains time, and what devices hold still fits."""
    if not problem.fits(placement):
        return placement
    devices = [*placement]
    gained = True
    while gained:
        gained = False
        for task in range(len(devices)):
            for device in problem.tasks[task].seconds:
                gained |= _moved(problem, devices, task, device)
    return tuple(devices)


def _moved(problem: Problem, devices: list[int], task: int, device: int) -> bool:
    """Move a task to a device if that gains time and fits; whether it did."""
    before = devices[task]
    old = problem.share(devices, task)
    devices[task] = device
    if problem.share(devices, task) < old * (1 - 1e-9) and problem.fits(devices):
        return True
    devices[task] = before
    return False


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
