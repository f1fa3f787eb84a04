"""What a program takes and gives, without the program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from afterglow.types.extent import Dim, Extents, dims_of
from afterglow.types.tensor import TensorType


@dataclass(frozen=True)
class Port:
    """An input, output or state. A donated input may be overwritten once it has been read."""

    name: str
    type: TensorType
    donated: bool = False

    def bind(self, extents: Extents) -> Port:
        """The port with the exact type that it has in a run with these extents."""
        return replace(self, type=self.type.bind(extents))


@dataclass(frozen=True)
class Interface:
    """The ports of a program, in its order."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[Port, ...] = ()

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions that extents of the ports depend on, by name."""
        return dims_of(*(extent for port in self.ports for extent in port.type.shape))

    @property
    def ports(self) -> tuple[Port, ...]:
        """All that a run reads and writes, in the order of the buffer table."""
        return (*self.inputs, *self.outputs, *self.states)

    def bind(self, extents: Extents) -> Interface:
        """The ports with the exact types that they have in a run with these extents."""
        groups = (self.inputs, self.outputs, self.states)
        return Interface(*(tuple(port.bind(extents) for port in group) for group in groups))
