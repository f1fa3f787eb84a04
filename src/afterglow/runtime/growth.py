"""State that grows in place: how far it is filled, from run to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from afterglow.runtime.buffers import HostBuffer, arrays_of
from afterglow.runtime.device import DeviceBuffer
from afterglow.runtime.extents import ExtentReader
from afterglow.support.errors import UsageError
from afterglow.types import Array, FillLevel, Interface, Port
from afterglow.types.extent import dims_of, largest


@dataclass(frozen=True)
class Growth:
    """Knows the states of a program that grow, and sets their fill levels."""

    ports: tuple[Port, ...]
    extents: ExtentReader

    @staticmethod
    def of(interface: Interface) -> Growth | None:
        """That of a program; None if no state of it grows."""
        ports = interface.growing
        return Growth(ports, ExtentReader.of(interface)) if ports else None

    def check_room(self, states: Mapping[str, DeviceBuffer]) -> None:
        """Refuse a run for which a state has no room, before anything is overwritten."""
        for port in self.ports:
            filled, level = _host(states[port.name]).filled, _level(port)
            if filled > largest(level.before):
                raise _full(port, level, filled)

    def advance(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> None:
        """Set the levels to what they are after a run."""
        extents = self.extents.of_run(inputs, arrays_of(states))
        for port in self.ports:
            _host(states[port.name]).filled = _level(port).bind(extents).after

    def reset(self, states: Mapping[str, DeviceBuffer]) -> None:
        """Empty the states."""
        for port in self.ports:
            _host(states[port.name]).filled = 0

    def copy_levels(
        self, source: Mapping[str, DeviceBuffer], to: Mapping[str, DeviceBuffer]
    ) -> None:
        """Have copies of states filled as they are."""
        for port in self.ports:
            _host(to[port.name]).filled = _host(source[port.name]).filled


def _host(state: DeviceBuffer) -> HostBuffer:
    assert isinstance(state, HostBuffer), "only states in the host's memory grow"
    return state


def _level(port: Port) -> FillLevel:
    assert port.level is not None
    return port.level


def _full(port: Port, level: FillLevel, filled: int) -> UsageError:
    capacity = port.type.shape[level.axis]
    (dim,) = dims_of(level.before)
    return UsageError(
        f"state {port.name!r} is full: it holds {filled} of at most {capacity} along axis "
        f"{level.axis}",
        help="empty it with model.reset(), or compile the model for more: "
        f"dims={{{dim.name!r}: (0, LAST)}}",
    )
