"""States of a program: what they hold, and how far those that grow in place are filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from afterglow.runtime.buffers import HostBuffer, host_buffer
from afterglow.runtime.device import DeviceBuffer
from afterglow.runtime.extents import ExtentReader
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, FillLevel, Interface, Port, TensorType
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
            filled = host_buffer(states[port.name]).filled
            if filled > largest(level.before):
                raise _full(port, level, filled)

    def advance(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> None:
        """Set the levels to what they are after a run."""
        extents = self.extents.read(inputs, states)
        for level, ports in self.alike.items():
            after = bind_extent(level.after, extents)
            for port in ports:
                host_buffer(states[port.name]).filled = after

    def copy_levels(
        self, source: Mapping[str, DeviceBuffer], to: Mapping[str, DeviceBuffer]
    ) -> None:
        """Have copies of states filled as they are."""
        for port in chain(*self.alike.values()):
            host_buffer(to[port.name]).filled = host_buffer(source[port.name]).filled


def filled_states(interface: Interface, arrays: Mapping[str, Array]) -> dict[str, HostBuffer]:
    """The states of a program in the host's memory, holding arrays as `fill` says."""
    states = {port.name: HostBuffer(port.type) for port in interface.states}
    fill(interface, states, arrays)
    return states


def full_states(interface: Interface) -> dict[str, HostBuffer]:
    """The states of a program in the host's memory; those that grow have room for one more run."""
    states = filled_states(interface, {})
    for port in interface.growing:
        assert port.level is not None
        states[port.name].filled = largest(port.level.before)
    return states


def fill(
    interface: Interface, states: Mapping[str, DeviceBuffer], arrays: Mapping[str, Array]
) -> None:
    """Have states hold arrays, by name, which say how far those that grow are filled.

    Without an array a state is as before the first run: empty if it grows, and zeros otherwise.
    """
    ports = {port.name: port for port in interface.states}
    for name, array in arrays.items():
        if name not in ports:
            listed = ", ".join(map(repr, ports)) or "none"
            raise UsageError(f"the model has no state {name!r}", help=f"it has {listed}")
        _check_fits(ports[name], array)
    for name, port in ports.items():
        _fill(port, states[name], arrays.get(name))


def _fill(port: Port, state: DeviceBuffer, array: Array | None) -> None:
    if port.level is None:
        zeros = np.zeros(port.type.shape, port.type.dtype.numpy)
        state.write(zeros if array is None else array).result()
        return
    host = host_buffer(state)
    host.filled = 0
    if array is not None:
        host.array[tuple(slice(extent) for extent in array.shape)] = array
        host.filled = array.shape[port.level.axis]


def _check_fits(port: Port, array: Array) -> None:
    """Refuse an array of another type, or one that is longer than a state may be before a run."""
    room = list(port.type.shape)
    if port.level is not None:
        room[port.level.axis] = largest(port.level.before)
    grows = port.level is not None
    fits = array.ndim == len(room) and all(
        extent <= most if grows else extent == most
        for extent, most in zip(array.shape, room, strict=True)
    )
    if not fits or array.dtype != port.type.dtype.numpy:
        wanted = f"{'at most ' if grows else ''}{port.type.with_shape(room)}"
        raise UsageError(
            f"state {port.name!r} cannot hold {TensorType.of(array)}: it begins a run with {wanted}"
        )


def _full(port: Port, level: FillLevel, filled: int) -> UsageError:
    capacity = port.type.shape[level.axis]
    (dim,) = dims_of(level.before)
    return UsageError(
        f"state {port.name!r} is full: it holds {filled} of at most {capacity} along axis "
        f"{level.axis}",
        help="empty it with model.reset(), or compile the model for more: "
        f"dims={{{dim.name!r}: (0, LAST)}}",
    )
