"""What the parameters of a kernel point to besides the buffers of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from afterglow.instr import Buffer, OpInstr, Region
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, IndexRange


@dataclass(frozen=True)
class Packed:
    """A constant in another order, made when a program is compiled."""

    buffer: Buffer
    order: str
    """What tells orders apart."""
    pack: Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers that a kernel reads besides its operands, as a constant."""

    data: Array


@dataclass(frozen=True)
class Alarm:
    """Two numbers in memory: 1 once an index is out of range, and that index."""

    step: OpInstr
    operand: str
    allowed: IndexRange


@dataclass(frozen=True, eq=False)
class Counters:
    """Zeros of i32, which a kernel counts with and leaves as zeros."""

    count: int


Parameter: TypeAlias = Buffer | Packed | Table | Alarm | Counters


def is_constant(parameter: Parameter) -> bool:
    """Whether no kernel writes what a parameter points to."""
    if isinstance(parameter, Buffer):
        return parameter.root.region is Region.CONSTANT
    return isinstance(parameter, (Packed, Table))


def elements_of(buffer: Buffer) -> Array:
    """The elements of a constant buffer, or of a view of one."""
    root = buffer.root
    assert root.data is not None
    flat = np.ascontiguousarray(root.data).reshape(-1)
    return buffer.of(flat.view(buffer.type.dtype.numpy))
