"""In which order the commands of a run may go: copies to the device, its program, copies back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afterglow.backends.launched.dependencies import Command, Span, dependencies, is_chain
from afterglow.backends.launched.memories import ALARMS
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Interface


@dataclass(frozen=True)
class Schedule:
    """Which commands wait for which, and whether a queue that keeps their order is as good.

    Inputs that are copied to the device come first, then the parts of the program, then outputs
    that are copied back, then the alarms.
    """

    inputs: int
    parts: int
    waits: Sequence[Sequence[int]]
    in_order: bool

    @staticmethod
    def of(interface: Interface, parts: Sequence[Mapping[str, Any]]) -> Schedule:
        """The schedule of a program; steps of the host happen between what is before and after."""
        given = [
            Command(writes=[Span(f"input {i}", 0, port.type.nbytes)])
            for i, port in enumerate(interface.inputs)
        ]
        first = len(given)
        steps = [Command(_spans(part["reads"]), _spans(part["writes"])) for part in parts]
        results = [
            Command(reads=[Span(f"output {i}", 0, port.type.nbytes)])
            for i, port in enumerate(interface.outputs)
        ]
        alarms = [span for step in steps for span in step.writes if span.memory == ALARMS]
        waits = dependencies([*given, *steps, *results, Command(reads=alarms)])
        on_host = any("host" in part for part in parts)
        within = [
            [other - first for other in each if other >= first]
            for each in waits[first : first + len(steps)]
        ]
        return Schedule(len(given), len(steps), waits, on_host or is_chain(within))

    def __str__(self) -> str:
        """What each part waits for: numbers of parts, and inputs that are copied."""
        first = self.inputs
        lines = []
        for number, waits in enumerate(self.waits[first : first + self.parts]):
            names = [f"input {each}" if each < first else str(each - first) for each in waits]
            lines.append(f"{number}: {', '.join(names) or 'nothing'}")
        return "\n".join(lines)


def _spans(described: Sequence[Sequence[Any]]) -> list[Span]:
    return [Span(*each) for each in described]
