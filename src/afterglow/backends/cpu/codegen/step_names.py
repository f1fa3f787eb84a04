"""The names of a program's steps, which profilers show."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cpu.codegen.calls import Call
from afterglow.backends.cpu.codegen.steps import Segment
from afterglow.instr import Instr, origins_of

_LONGEST = 120
"""Characters of a step's name: a step may be many small kernels in a row."""


def step_names(segments: Sequence[Segment]) -> list[str]:
    """A name for each step: its kernels, and the nodes of the model that they compute."""
    return [
        _step_name(step.calls, origins)
        for segment in segments
        for step, origins in zip(segment.steps, segment.origins_of_steps, strict=True)
    ]


def _step_name(calls: Sequence[Call], origins: Sequence[Instr]) -> str:
    kernels = dict.fromkeys(call.function.symbol for call in calls)
    nodes = dict.fromkeys(node for origin in origins for node in origins_of(origin))
    text = f"{', '.join(kernels)} ({', '.join(nodes)})" if nodes else ", ".join(kernels)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
