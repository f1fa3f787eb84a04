"""State that grows in place: how far it is filled, from run to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import DeviceBuffer
from afterglow.runtime.extents import ExtentReader
from afterglow.support.errors import UsageError
from afterglow.types import Array, FillLevel, Interface, Port
from afterglow.types.extent import bind_extent, dims_of, largest


@dataclass(frozen=True)
class Growth:
    """Knows the states of a program that grow, and sets their fill levels."""

    alike: Mapping[FillLevel, Sequence[Port]]
    """The states with each fill level; those of a level are always filled alike."""
    extents: ExtentReader

    @staticmethod
    def of(interface: Interface) -> Growth | None:
        """That of a program; None if no state of it grows."""
        alike: dict[FillLevel, list[Port]] = {}
        for port in interface.states:
            if port.level is not None:
                alike.setdefault(port.level, []).append(port)
        return Growth(alike, ExtentReader.of(interface)) if alike else None

    def check_room(self, states: Mapping[str, DeviceBuffer]) -> None:
        """Refuse a run for which a state has no room, before anything is overwritten."""
        for level, (port, *_) in self.alike.items():
            filled = _host(states[port.name]).filled
            if filled > largest(level.before):
                raise _full(port, level, filled)

    def advance(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> None:
        """Set the levels to what they are after a run."""
        levels = {name: _host(states[name]).filled for name in self.extents.growing}
        extents = self.extents.read(inputs, levels)
        for level, ports in self.alike.items():
            after = bind_extent(level.after, extents)
            for port in ports:
                _host(states[port.name]).filled = after

    def reset(self, states: Mapping[str, DeviceBuffer]) -> None:
        """Empty the states."""
        for port in chain(*self.alike.values()):
            _host(states[port.name]).filled = 0

    def copy_levels(
        self, source: Mapping[str, DeviceBuffer], to: Mapping[str, DeviceBuffer]
    ) -> None:
        """Have copies of states filled as they are."""
        for port in chain(*self.alike.values()):
            _host(to[port.name]).filled = _host(source[port.name]).filled


def _host(state: DeviceBuffer) -> HostBuffer:
    assert isinstance(state, HostBuffer), "only states in the host's memory grow"
    return state


def _full(port: Port, level: FillLevel, filled: int) -> UsageError:
    capacity = port.type.shape[level.axis]
    (dim,) = dims_of(level.before)
    return UsageError(
        f"state {port.name!r} is full: it holds {filled} of at most {capacity} along axis "
        f"{level.axis}",
        help="empty it with model.reset(), or compile the model for more: "
        f"dims={{{dim.name!r}: (0, LAST)}}",
    )
