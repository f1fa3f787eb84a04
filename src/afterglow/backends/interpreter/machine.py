"""Executing a planned program on a real arena of bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from afterglow.graph import Array, run_op
from afterglow.instr import Buffer, Copy, OpInstr, Program, Region
from afterglow.types.dtype import string


class Machine:
    """Runs one program; what planning got wrong shows as wrong numbers.

    `skipped` counts instructions left out because their predicate was false.
    """

    def __init__(self, program: Program, *, honour_predicates: bool = True) -> None:
        self.program = program
        self.honour_predicates = honour_predicates
        self.skipped = 0

    def run(self, inputs: Sequence[Array], states: Mapping[str, Array]) -> list[Array]:
        """Run once, on an arena of its own: calls from several threads do not meet."""
        return _Run(self, inputs, states).run()


class _Run:
    """The memory of one run."""

    def __init__(
        self, machine: Machine, inputs: Sequence[Array], states: Mapping[str, Array]
    ) -> None:
        self.machine = machine
        program = machine.program
        self.arena = np.empty(program.arena_bytes or 0, np.uint8)
        self.memory: dict[Buffer, Array] = {}
        for buffer, array in zip(program.inputs, inputs, strict=True):
            self.memory[buffer] = _flat(array)
        for buffer in program.constants:
            assert buffer.data is not None
            self.memory[buffer] = buffer.data
        for buffer in program.states:
            self.memory[buffer] = states[buffer.name].reshape(-1)
        self.outputs = [np.empty(b.type.shape, b.type.dtype.numpy) for b in program.outputs]
        for buffer, array in zip(program.outputs, self.outputs, strict=True):
            self.memory[buffer] = array.reshape(-1)

    def run(self) -> list[Array]:
        for step in self.machine.program.body:
            match step:
                case Copy(dest, src):
                    self.array(dest)[...] = self.array(src)
                case OpInstr():
                    self._compute(step)
        return self.outputs

    def _compute(self, step: OpInstr) -> None:
        predicate = step.predicate
        if predicate is not None and self.machine.honour_predicates and not self.array(predicate):
            self.machine.skipped += 1
            return
        operands = [None if buffer is None else self.array(buffer) for buffer in step.ins]
        results = run_op(step.op, operands, [buffer.type for buffer in step.outs])
        for buffer, result in zip(step.outs, results, strict=True):
            self.array(buffer)[...] = result

    def array(self, buffer: Buffer) -> Array:
        """The elements of a buffer or view, in place."""
        root = buffer.root
        if root.region is Region.CONSTANT and not buffer.is_view:
            return self.memory[root]
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
        assert buffer.address is not None
        data = self.arena[buffer.address : buffer.address + buffer.type.nbytes]
        return data.view(buffer.type.dtype.numpy)


def _flat(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1)
