"""What a program takes and gives, without the program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from afterglow.types.extent import Dim, dims_of
from afterglow.types.tensor import TensorType


@dataclass(frozen=True)
class Port:
    """An input, output or state. A donated input may be overwritten once it has been read."""

    name: str
    type: TensorType
    donated: bool = False


@dataclass(frozen=True)
class Interface:
    """The ports of a program, in its order."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[Port, ...] = ()

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions that extents of the ports depend on, by name."""
        ports = (*self.inputs, *self.outputs, *self.states)
        return dims_of(*(extent for port in ports for extent in port.type.shape))
