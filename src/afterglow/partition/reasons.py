"""Why a task is where it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from afterglow.partition.config import THROUGHPUT
from afterglow.partition.pricing import PricedTasks
from afterglow.partition.problem import Placement
from afterglow.support.durations import duration


class Reasons:
    """The reasons of a placement, task by task."""

    def __init__(self, priced: PricedTasks, placement: Placement, objective: str) -> None:
        self.priced, self.problem = priced, priced.problem
        self.devices = [*placement]
        self.objective = objective

    def of(self, task: int) -> str:
        """Why a task is on its device, as one phrase."""
        if self.priced.is_given(task):
            return "placed there by the user"
        others = [d for d in self.problem.tasks[task].seconds if d != self.devices[task]]
        if not others:
            return "no other device can compute it"
        if self.objective == THROUGHPUT:
            return f"balances the pipeline, in which devices are busy for {self._balance} a request"
        return self._by_time(task, others)

    def _by_time(self, task: int, others: Sequence[int]) -> str:
        """What another device would take: for computing, and for the values that would cross."""
        here, times = self.devices[task], self.problem.tasks[task].seconds
        shares = {device: self._share_on(task, device) for device in (*others, here)}
        other = min(others, key=lambda device: (shares[device], device))
        name = self.problem.devices[other]
        gain, faster = shares[other] - shares[here], times[other] - times[here]
        if gain < 0:
            return f"{duration(-gain)} slower than on {name}, where no memory is left"
        if faster > 0:
            return f"{duration(gain)} faster than on {name}, transfers included"
        less = f"would take {duration(-faster)} less" if faster else "would take as long"
        return (
            f"kept with its neighbours: on {name} it {less}, "
            f"but transfers {duration(gain - faster)} more"
        )

    def _share_on(self, task: int, device: int) -> float:
        """The time that a task has to do with, if it alone were on another device."""
        here = self.devices[task]
        self.devices[task] = device
        share = self.problem.share(self.devices, task)
        self.devices[task] = here
        return share

    @cached_property
    def _balance(self) -> str:
        """How busy the devices are."""
        busy = self.problem.busy(self.devices)
        able = self.problem.computing
        return ", ".join(f"{self.problem.devices[d]} {duration(busy[d])}" for d in able)
