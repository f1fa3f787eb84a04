"""Runs whose steps are shown in a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeAlias, runtime_checkable

from afterglow.runtime.device import DeviceBuffer, Executable
from afterglow.runtime.trace import Recording
from afterglow.types import Array

Run: TypeAlias = Callable[[Sequence[Array], Mapping[str, DeviceBuffer]], list[Array]]


@runtime_checkable
class RecordsSteps(Protocol):
    """An executable whose runs can show each of their steps."""

    def run_recorded(
        self, here: Recording, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
    ) -> list[Array]:
        """Run once on one thread, and add each step to a trace."""


def run_of(executable: Executable, here: Recording | None) -> Run:
    """How an executable runs: with its steps in a trace, if they are wanted and it can."""
    if here is not None and here.with_steps and isinstance(executable, RecordsSteps):
        return partial(executable.run_recorded, here)
    return executable.run
