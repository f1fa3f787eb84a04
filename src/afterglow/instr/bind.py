"""Programs for ranges as they are in one run: every extent a number, every address as planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from afterglow.graph import Module
from afterglow.graph.function import bind_attribute, bind_op
from afterglow.instr.buffer import Buffer
from afterglow.instr.instruction import (
    Alloc,
    Copy,
    Dealloc,
    DeclareView,
    Instr,
    OpInstr,
    Prefetch,
    Stack,
    Wait,
)
from afterglow.instr.kernel_plan import KernelPlan
from afterglow.instr.program import Program
from afterglow.types.extent import Extents, bind_extent


def bind_program(program: Program, extents: Extents) -> Program:
    """A copy of a program in which the dimensions of ranged extents have these extents.

    Buffers keep the addresses that were planned for the largest extents; arrays are shared.
    """
    return _Binder(extents).program(program) if extents else program


class _Binder:
    """Copies programs, the instructions in them, and what those carry."""

    def __init__(self, extents: Extents) -> None:
        self.extents = extents
        self.modules: dict[Module, Module] = {}
        self.buffers: dict[Buffer, Buffer] = {}
        self.transfers: dict[Prefetch, Prefetch] = {}

    def program(self, program: Program) -> Program:
        """The copy of a program."""
        copy = Program(program.name)
        copy.inputs = [*map(self.buffer, program.inputs)]
        copy.outputs = [*map(self.buffer, program.outputs)]
        copy.constants = [*map(self.buffer, program.constants)]
        copy.states = [*map(self.buffer, program.states)]
        copy.arena_bytes, copy.arenas = program.arena_bytes, program.arenas
        copy.memory_plan, copy.names = program.memory_plan, program.names
        copy.body = [*map(self.step, program.body)]
        return copy

    def buffer(self, buffer: Buffer) -> Buffer:
        """The copy of a buffer: one for all its uses."""
        if buffer not in self.buffers:
            self.buffers[buffer] = self._copied(buffer)
        return self.buffers[buffer]

    def _copied(self, buffer: Buffer) -> Buffer:
        copy = Buffer(
            buffer.name,
            buffer.type.bind(self.extents),
            buffer.region,
            base=None if buffer.base is None else self.buffer(buffer.base),
            start=bind_extent(buffer.start, self.extents),
            strides=[bind_extent(stride, self.extents) for stride in buffer.strides],
            data=buffer.content,
        )
        copy.address, copy.memory = buffer.address, buffer.memory
        copy.donated = buffer.donated
        copy.level = None if buffer.level is None else buffer.level.bind(self.extents)
        return copy

    def step(self, step: Instr) -> Instr:
        """The copy of an instruction."""
        match step:
            case Alloc(buffer) | Dealloc(buffer) | DeclareView(buffer):
                return type(step)(self.buffer(buffer))
            case Copy(dest, src, origins):
                return Copy(self.buffer(dest), self.buffer(src), origins)
            case Prefetch(dest, src, origins):
                return self.transfers.setdefault(
                    step, Prefetch(self.buffer(dest), self.buffer(src), origins)
                )
            case Wait(transfer):
                return Wait(self.transfers[transfer])
            case Stack():
                return self._stack(step)
            case OpInstr():
                return self._computation(step)
        raise AssertionError(f"no way to copy {step}")

    def _stack(self, stack: Stack) -> Stack:
        return Stack(
            tuple(map(self._computation, stack.body)),
            tuple(map(self.buffer, stack.locals)),
            tuple(map(self.buffer, stack.scratch)),
            self._plan(stack.plan),
        )

    def _computation(self, step: OpInstr) -> OpInstr:
        return OpInstr(
            bind_op(step.op, self.extents, self.modules),
            tuple(map(self.buffer, step.outs)),
            tuple(None if each is None else self.buffer(each) for each in step.ins),
            tuple(map(self.buffer, step.scratch)),
            None if step.predicate is None else self.buffer(step.predicate),
            step.origins,
            tuple(map(self.program, step.bodies)),
            self._plan(step.plan),
        )

    def _plan(self, plan: KernelPlan | None) -> KernelPlan | None:
        return None if plan is None else replace(plan, settings=self._settings(plan.settings))

    def _settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {name: bind_attribute(value, self.extents) for name, value in settings.items()}
