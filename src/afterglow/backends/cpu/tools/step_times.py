"""How long each instruction of a program takes by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import perf_counter

from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.native.executable import NativeExecutable
from afterglow.runtime.native.program import Host, Native, NativeProgram
from afterglow.types import Array


class StepTimer:
    """Runs a program that was built apart, again and again; `best` has the seconds of each place.

    A place is that of an instruction in the program's body.
    """

    def __init__(
        self,
        native: NativeProgram,
        inputs: Sequence[Array],
        states: Mapping[str, HostBuffer],
        threads: int | None,
    ) -> None:
        self.executable = NativeExecutable(native, threads)
        self.inputs = inputs
        self.states = states
        self.best: dict[int, float] = {}

    def run(self) -> None:
        """Run once, and note what was faster than before."""
        for place, seconds in _run_once(self.executable, self.inputs, self.states):
            self.best[place] = min(self.best.get(place, math.inf), seconds)


def _run_once(
    executable: NativeExecutable, inputs: Sequence[Array], states: Mapping[str, HostBuffer]
) -> list[tuple[int, float]]:
    """The seconds of each instruction, by its place in the program."""
    inputs, outputs, context = executable.begin(inputs, states)
    on_host = executable.start_host(context, inputs, outputs, states)
    times = []
    for part in executable.native.parts:
        started = perf_counter()
        executable.run_part(part, context, on_host)
        times.append((_place(part), perf_counter() - started))
    executable.give_back(context)
    return times


def _place(part: Native | Host) -> int:
    return part.index if isinstance(part, Host) else part.instructions[0]
