"""What a program takes and gives, without the program."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import Dim, Extents, bind_extent, dims_of, is_ranged
from afterglow.types.tensor import TensorType


@dataclass(frozen=True)
class FillLevel:
    """How many indices along an axis of a state are filled: `before` a run, and `after` it.

    What is filled stays where it is: a run appends. `before` is the extent of a dimension.
    """

    axis: int
    before: int
    after: int

    @property
    def is_ranged(self) -> bool:
        """Whether it depends on the extents of dimensions."""
        return is_ranged(self.before) or is_ranged(self.after)

    def bind(self, extents: Extents) -> FillLevel:
        """What it is in a run with these extents."""
        before, after = (bind_extent(n, extents) for n in (self.before, self.after))
        return FillLevel(self.axis, before, after)

    def __str__(self) -> str:
        return f"filled {self.axis} from {self.before} to {self.after}"


@dataclass(frozen=True)
class Port:
    """An input, output or state. A donated input may be overwritten once it has been read.

    A state that grows has a fill level.
    """

    name: str
    type: TensorType
    donated: bool = False
    level: FillLevel | None = None

    @property
    def extents(self) -> tuple[int, ...]:
        """Its shape, and how far it is filled."""
        level = () if self.level is None else (self.level.before, self.level.after)
        return (*self.type.shape, *level)

    def bind(self, extents: Extents) -> Port:
        """The port with the exact type that it has in a run with these extents."""
        level = None if self.level is None else self.level.bind(extents)
        return replace(self, type=self.type.bind(extents), level=level)


@dataclass(frozen=True)
class Interface:
    """The ports of a program, in its order."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[Port, ...] = ()

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions that extents of the ports depend on, by name."""
        return dims_of(*(extent for port in self.ports for extent in port.extents))

    @property
    def ports(self) -> tuple[Port, ...]:
        """All that a run reads and writes, in the order of the buffer table."""
        return (*self.inputs, *self.outputs, *self.states)

    @property
    def growing(self) -> tuple[Port, ...]:
        """The states that grow."""
        return tuple(port for port in self.states if port.level is not None)

    def bind(self, extents: Extents) -> Interface:
        """The ports with the exact types that they have in a run with these extents."""
        groups = (self.inputs, self.outputs, self.states)
        return Interface(*(tuple(port.bind(extents) for port in group) for group in groups))
