"""From the device of each task to parts: runs of tasks on one device."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.partition.problem import Placement
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Run:
    """Tasks, by number, that one device computes one after the other, as a whole."""

    device: int
    tasks: tuple[int, ...]


def cut(placement: Placement, follows: Sequence[Sequence[int]]) -> list[Run]:
    """Runs in an order in which each reads only of those before it.

    `follows` lists for each task those that it reads from. A device goes on as long as something
    is ready for it; then that one is next for which most is ready, so that there are few runs.
    """
    readers: list[list[int]] = [[] for _ in placement]
    missing = [len({*before}) for before in follows]
    for task, before in enumerate(follows):
        for other in {*before}:
            readers[other].append(task)
    ready = [task for task, count in enumerate(missing) if not count]
    runs: list[Run] = []
    while ready:
        device = _next_device(placement, ready)
        own: list[int] = []
        while any(placement[task] == device for task in ready):
            task = min(task for task in ready if placement[task] == device)
            ready.remove(task)
            own.append(task)
            for reader in readers[task]:
                missing[reader] -= 1
                if not missing[reader]:
                    ready.append(reader)
        runs.append(Run(device, tuple(own)))
    assert sum(len(run.tasks) for run in runs) == len(placement), "tasks read from each other"
    return runs


def _next_device(placement: Placement, ready: Sequence[int]) -> int:
    """The device for which most tasks are ready; among equals, the one of the first task."""
    counts: dict[int, int] = {}
    for task in sorted(ready):
        counts[placement[task]] = counts.get(placement[task], 0) + 1
    return max(counts, key=counts.__getitem__)
