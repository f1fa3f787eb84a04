"""Frames: where the buffers of a program are, relative to the buffer table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from afterglow.backends.cpu.codegen.calls import Guard, Place
from afterglow.backends.cpu.codegen.constants import Constants
from afterglow.instr import Buffer, Program, Region
from afterglow.runtime.native.convention import (
    ALIGNMENT,
    ARENA,
    CONSTANTS,
    EXTENT_BYTES,
    EXTENTS,
    FIRST_OTHER,
)
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Frame:
    """Places of a program's arena, and of buffers outside of it.

    What runs in it runs only if the guards hold. Constants are the same for all frames.
    """

    constants: Constants
    buffers: Mapping[Buffer, Place]
    arena: Place = (ARENA, 0)
    guards: tuple[Guard, ...] = ()
    dims: tuple[str, ...] = ()
    """The dimensions whose extents the buffer table knows, in their order there."""
    interrupts: Place | None = None
    """The cell that loops look at, if somebody may interrupt them."""

    @staticmethod
    def of(
        program: Program,
        constants: Constants,
        dims: tuple[str, ...] = (),
        *,
        interruptible: bool = False,
    ) -> Frame:
        """The frame of a program that has a buffer table of its own."""
        numbers = number_bases(program)
        cell = (FIRST_OTHER + len(numbers), 0) if interruptible else None
        places = {b: (number, 0) for b, number in numbers.items()}
        return Frame(constants, places, dims=dims, interrupts=cell)

    def place(self, buffer: Buffer) -> Place:
        """Where the first element of a buffer or view lies."""
        root, start = buffer.root, buffer.start * buffer.type.dtype.itemsize
        if root.region is Region.CONSTANT:
            return CONSTANTS, self.constants.raw(root) + start
        if root in self.buffers:
            return shifted(self.buffers[root], start)
        assert root.address is not None
        return shifted(self.arena, root.address + start)

    def extent(self, dim: str) -> Place:
        """Where the extent of a dimension lies."""
        return EXTENTS, self.dims.index(dim) * EXTENT_BYTES

    def knowing(self, buffers: Mapping[Buffer, Place]) -> Frame:
        """The same frame with more buffers."""
        return replace(self, buffers={**self.buffers, **buffers})


def number_bases(program: Program) -> dict[Buffer, int]:
    """The index in the buffer table of every buffer outside arena and constants."""
    others = (*program.inputs, *program.outputs, *program.states)
    return {buffer: FIRST_OTHER + number for number, buffer in enumerate(others)}


def shifted(place: Place, offset: int) -> Place:
    """A place some bytes further on."""
    base, start = place
    return base, start + offset


def padded(size: int) -> int:
    """Bytes up to where the next piece of memory may begin."""
    return -(-size // ALIGNMENT) * ALIGNMENT
