"""Values that stay in the memory of a device, because a later part reads them there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from afterglow.runtime.device import DeviceBuffer
from afterglow.runtime.partitioned.graph import PartGraph
from afterglow.runtime.partitioned.loaded import LoadedPart, Values
from afterglow.runtime.trace import Recording
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array


@dataclass(frozen=True)
class Stay:
    """What a part finds in the memory of its device, what it leaves there, and what it sends."""

    found: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    sent: frozenset[str] = frozenset()
    """The results that the host needs, or other devices through it."""

    @property
    def is_used(self) -> bool:
        """Whether something does not move."""
        return bool(self.found or self.left)


def stays_of(graph: PartGraph, parts: Sequence[LoadedPart]) -> list[Stay]:
    """What stays on the device of each part."""
    makers = {name: part for part in parts if works_on_buffers(part) for name in part.part.outputs}
    found = [
        frozenset(name for name in part.part.inputs if _stays(makers.get(name), part))
        for part in parts
    ]
    wanted = {name for value in graph.outputs for name in graph.sources(value)}
    for part, own in zip(parts, found, strict=True):
        moved = [value for value in part.part.inputs if value not in own]
        wanted.update(name for value in moved for name in graph.sources(value))
    somewhere = frozenset[str]().union(*found)
    return [
        Stay(own, somewhere & {*part.part.outputs}, frozenset(wanted & {*part.part.outputs}))
        for part, own in zip(parts, found, strict=True)
    ]


def works_on_buffers(part: LoadedPart) -> bool:
    """Whether a part may be run on buffers of its device, which has a memory of its own."""
    interface = part.part.artifact.interface
    return not (part.in_host_memory or interface.states or interface.dims)


def _stays(maker: LoadedPart | None, reader: LoadedPart) -> bool:
    return maker is not None and maker.name == reader.name and works_on_buffers(reader)


def run_on_buffers(
    loaded: LoadedPart, stay: Stay, values: Values, here: Recording | None
) -> tuple[dict[str, Array], dict[str, DeviceBuffer]]:
    """Run a part on buffers of its device: the results that are sent, and those that stay there.

    Only what is not there yet is copied; a trace shows copies apart from the arithmetic.
    """
    part, interface = loaded.part, loaded.part.artifact.interface
    given = {name: values[name] for name in part.inputs if name not in stay.found}
    taken = [
        values.on_device[name] if name in stay.found else loaded.allocate(port.type)
        for name, port in zip(part.inputs, interface.inputs, strict=True)
    ]
    made = {
        name: loaded.allocate(port.type)
        for name, port in zip(part.outputs, interface.outputs, strict=True)
    }
    with _span(here, "copy inputs", sum(array.nbytes for array in given.values())):
        buffers = dict(zip(part.inputs, taken, strict=True))
        for copy in [buffers[name].write(array) for name, array in given.items()]:
            copy.result()
    with nullcontext() if here is None else here.span("run", "compute"):
        loaded.executable.start(taken, [*made.values()], {}).result()
    with _span(here, "copy outputs", sum(made[name].type.nbytes for name in stay.sent)):
        reads = {name: made[name].read() for name in part.outputs if name in stay.sent}
        sent = {name: copy.result() for name, copy in reads.items()}
    return sent, {name: made[name] for name in stay.left}


def _span(here: Recording | None, name: str, size: int) -> AbstractContextManager[None]:
    return here.span(name, "transfer", bytes=size) if here and size else nullcontext()
