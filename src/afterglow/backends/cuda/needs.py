"""Whether a GPU has the memory that a program needs, and for how many runs at once."""

from __future__ import annotations

from afterglow.backends.cuda.driver.protocol import DeviceFacts
from afterglow.backends.cuda.sections import CUBIN
from afterglow.backends.cuda.session import Session
from afterglow.backends.launched.memories import CONSTANTS
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.device import Footprint
from afterglow.support.errors import DeviceError

RUNS_AT_ONCE = 4
"""Runs of a program that are under way at most; each has an arena, further ones wait."""


def footprint_of(artifact: Artifact) -> Footprint:
    """Its constants, and the machine code of its kernels."""
    sections = artifact.sections
    code = sum(len(data) for name, data in sections.items() if name.startswith(CUBIN))
    return Footprint(len(sections[CONSTANTS]), code)


def check_fits(artifact: Artifact, on: Session) -> None:
    """Refuse a program that needs more memory than is free on a GPU."""
    interface = artifact.interface
    ports = (*interface.inputs, *interface.outputs, *interface.states)
    needs = {
        "weights": len(artifact.sections[CONSTANTS]),
        "intermediate results": int(artifact.manifest["arena_bytes"]),
        "inputs, outputs and states": sum(port.type.nbytes for port in ports),
    }
    with on.guarded("ask for its memory"):
        free, _ = on.context.memory()
    if sum(needs.values()) <= free:
        return
    listed = ", ".join(f"{count:,} for {what}" for what, count in needs.items())
    raise DeviceError(
        f"{on.name} has not enough memory: a run takes {sum(needs.values()):,} bytes: {listed}",
        help=on.memory_here(),
    )


def runs_at_once(artifact: Artifact, facts: DeviceFacts) -> int:
    """How many runs may be under way: as many as half of the GPU's memory has room for."""
    interface = artifact.interface
    if interface.states:
        return 1
    ports = (*interface.inputs, *interface.outputs)
    each = int(artifact.manifest["arena_bytes"]) + sum(port.type.nbytes for port in ports)
    room = facts.memory_bytes // 2 - len(artifact.sections[CONSTANTS])
    return max(1, min(RUNS_AT_ONCE, room // max(each, 1)))
