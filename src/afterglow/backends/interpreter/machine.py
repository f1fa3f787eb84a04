"""Executing a program on a real arena of bytes, or before it is planned on buffers of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from afterglow.graph import run_op
from afterglow.instr import (
    Buffer,
    Copy,
    Instr,
    OpInstr,
    Prefetch,
    Program,
    Region,
    Stack,
    Wait,
    interface_of,
)
from afterglow.instr.bind import bind_program
from afterglow.instr.tiling import TileAxis, tile_axes
from afterglow.runtime.buffers import HostExecutable, host_array
from afterglow.runtime.device import DeviceBuffer, Footprint
from afterglow.runtime.donation import donatable
from afterglow.runtime.extents import ExtentReader
from afterglow.types import Array
from afterglow.types.dtype import string

MOST_BOUND = 8
"""Programs for the extents of a run that are kept for the next."""


class Machine(HostExecutable):
    """Runs one program; what planning got wrong shows as wrong numbers.

    Stacks run in tiles of at most `tile` elements along each axis that they can be cut along.
    `skipped` counts instructions left out because their predicate was false. `unchecked`, indices
    that are out of range become the nearest that are not; so do those of skippable instructions if
    predicates are not honoured.
    """

    def __init__(
        self,
        program: Program,
        *,
        honour_predicates: bool = True,
        tile: int | None = None,
        unchecked: bool = False,
    ) -> None:
        self.program = program
        self.interface = interface_of(program)
        self.honour_predicates = honour_predicates
        self.tile = tile
        self.unchecked = unchecked
        self.skipped = 0
        self._bound: dict[tuple[int, ...], Program] = {}
        self._extents = ExtentReader.of(self.interface)

    @property
    def footprint(self) -> Footprint:
        """Its constants."""
        return Footprint(sum(buffer.type.nbytes for buffer in self.program.constants))

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once, on an arena of its own: calls from several threads do not meet."""
        program = self.bound(inputs, states)
        sizes = {"": program.arena_bytes or 0, **program.arenas}
        arenas = {name: np.empty(size, np.uint8) for name, size in sizes.items()}
        outputs = [np.empty(b.type.shape, b.type.dtype.numpy) for b in program.outputs]
        run = Run(self, arenas, inputs, outputs, states, program)
        for step in program.body:
            run.execute(step)
        return outputs

    def bound(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> Program:
        """The program as it is for the extents of a run; the last few are kept."""
        extents = self._extents.read(inputs, states)
        key = tuple(extents[dim.name] for dim in self.interface.dims)
        program = self._bound.get(key) or bind_program(self.program, extents)
        self._bound = {**dict([*self._bound.items()][1 - MOST_BOUND :]), key: program}
        return program


class Run:
    """One run of a program, as it is for the extents of the inputs, on the memory it is given."""

    def __init__(
        self,
        machine: Machine,
        arenas: Mapping[str, Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        program: Program | None = None,
    ) -> None:
        self.machine = machine
        self.program = program = program or machine.bound(inputs, states)
        self.arenas = arenas
        self.memory: dict[Buffer, Array] = {}
        for buffer, array in zip(
            program.inputs, donatable(machine.interface, inputs, states), strict=True
        ):
            self.memory[buffer] = _flat(array)
        for buffer in program.constants:
            if buffer.data is not None:
                self.memory[buffer] = buffer.data
        for buffer in program.states:
            self.memory[buffer] = host_array(states[buffer.name]).reshape(-1)
        for buffer, array in zip(program.outputs, outputs, strict=True):
            self.memory[buffer] = array.reshape(-1)

    def execute(self, step: Instr) -> None:
        """Do one instruction."""
        match step:
            case Copy(dest, src):
                self.array(dest)[...] = self.array(src)
            case Prefetch(dest):
                self.array(dest)[...] = _rubbish(dest)
            case Wait(transfer):
                self.array(transfer.dest)[...] = self.array(transfer.src)
            case OpInstr():
                self._compute(step, self.array)
            case Stack():
                self._run_stack(step)

    def _run_stack(self, stack: Stack) -> None:
        axes = tile_axes(stack)
        sizes = [min(self.machine.tile or axis.extent, axis.extent) or 1 for axis in axes]
        cuts = [range(0, max(a.extent, 1), size) for a, size in zip(axes, sizes, strict=True)]
        for starts in product(*cuts):
            tile = _Tile(self, stack, axes, starts, sizes)
            for step in stack.body:
                self._compute(step, tile.array)

    def _compute(self, step: OpInstr, array: Callable[[Buffer], Array]) -> None:
        predicate = step.predicate
        if predicate is not None and self.machine.honour_predicates and not array(predicate):
            self.machine.skipped += 1
            return
        operands = [None if buffer is None else array(buffer) for buffer in step.ins]
        outs = [array(buffer) for buffer in step.outs]
        types = [b.type.with_shape(out.shape) for b, out in zip(step.outs, outs, strict=True)]
        may_be_rubbish = predicate is not None and not self.machine.honour_predicates
        unchecked = self.machine.unchecked or may_be_rubbish
        origin = step.origin or step.outs[0].name
        results = run_op(step.op, operands, types, origin=origin, unchecked=unchecked)
        for out, result in zip(outs, results, strict=True):
            out[...] = result

    def array(self, buffer: Buffer) -> Array:
        """The elements of a buffer or view, in place."""
        root = buffer.root
        if root.region is Region.CONSTANT and not buffer.is_view:
            return self.memory[root].reshape(root.type.shape)  # a view may have flattened it
        if root not in self.memory:
            self.memory[root] = self._allocate(root)
        flat = self.memory[root]
        if root.region is Region.CONSTANT:  # may be a transposed view of a file: flatten once
            flat = self.memory[root] = _flat(flat).reshape(-1)
        if buffer.type.dtype is not root.type.dtype:
            flat = flat.view(buffer.type.dtype.numpy)
        return buffer.of(flat)

    def _allocate(self, buffer: Buffer) -> Array:
        if buffer.type.dtype is string:  # strings live on the host, not in the arena
            return np.empty(buffer.type.size, object)
        if buffer.address is None:  # before memory is planned, each has its own
            return np.empty(buffer.type.size, buffer.type.dtype.numpy)
        arena = self.arenas[buffer.memory]
        data = arena[buffer.address : buffer.address + buffer.type.nbytes]
        return data.view(buffer.type.dtype.numpy)


class _Tile:
    """One tile of a stack: parts of the buffers outside, and the locals, which live only here."""

    def __init__(
        self,
        run: Run,
        stack: Stack,
        axes: Sequence[TileAxis],
        starts: Sequence[int],
        sizes: Sequence[int],
    ) -> None:
        self.run = run
        self.cuts = list(zip(axes, starts, sizes, strict=True))
        self.locals = {
            buffer: np.empty(self._shape(buffer), buffer.type.dtype.numpy)
            for buffer in stack.locals
        }

    def array(self, buffer: Buffer) -> Array:
        """The part of a buffer that this tile works on."""
        if buffer in self.locals:
            return self.locals[buffer]
        return self.run.array(buffer)[self._window(buffer)]

    def _window(self, buffer: Buffer) -> tuple[slice, ...]:
        window = [slice(None)] * buffer.type.rank
        for axis, start, size in self.cuts:
            place = axis.axis_of.get(buffer)
            if place is not None:
                window[place] = slice(start, start + size)
        return tuple(window)

    def _shape(self, buffer: Buffer) -> tuple[int, ...]:
        extents = zip(buffer.type.shape, self._window(buffer), strict=True)
        return tuple(len(range(n)[part]) for n, part in extents)


def _rubbish(buffer: Buffer) -> Array:
    """An element that nobody would take for a result: a NaN, if it is a float."""
    dtype = buffer.type.dtype.numpy
    return np.full(dtype.itemsize, 0xFF, np.uint8).view(dtype)


def _flat(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1)
