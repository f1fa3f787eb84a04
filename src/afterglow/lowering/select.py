"""Turn nodes into instructions on buffers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeVar

from afterglow.graph import Constant, Function, Node, Value
from afterglow.graph.function import Update
from afterglow.instr import Buffer, Instr, OpInstr, Program, ProgramBuilder, Region

Carried: TypeAlias = Sequence[tuple[int, int]]
"""Inputs of a function, each with the output that it holds in the next run, by their numbers."""

ItemT = TypeVar("ItemT")


def select_instructions(function: Function, carried: Carried = ()) -> Program:
    """The program of a function, in the order of its nodes; lifetimes are not marked yet.

    An input that is carried becomes state: at the end, it holds the result that belongs to it.
    """
    return Selection(function, carried).run()


def step_of(node: Node) -> OpInstr:
    """A node as an instruction on buffers of its own, which are nobody else's: to ask about it."""
    outs = tuple(Buffer(value.name, value.type, Region.ARENA) for value in node.results)
    ins = tuple(None if value is None else _operand(value) for value in node.operands)
    return OpInstr(node.op, outs, ins, origins=node.origins)


def _operand(value: Value) -> Buffer:
    if isinstance(value, Constant):
        return Buffer(value.name, value.type, Region.CONSTANT, data=value.content)
    return Buffer(value.name, value.type, Region.ARENA)


class Selection:
    """Gives every value a buffer, and every node its instructions."""

    def __init__(self, function: Function, carried: Carried = ()) -> None:
        self.function = function
        inputs, outputs = function.inputs, function.outputs
        self.updates = [
            *(Update(inputs[taken], outputs[returned].value) for taken, returned in carried),
            *function.updates,
        ]
        self.carried = [inputs[taken] for taken, _ in carried]
        self.inputs = _without(inputs, (taken for taken, _ in carried))
        self.results = _without(outputs, (returned for _, returned in carried))
        self.program = Program(function.name)
        self.buffers: dict[Value, Buffer] = {}
        self.outputs: dict[Value, Buffer] = {}
        self.made: dict[Node, list[Instr]] = {}
        """What each node became."""

    def run(self) -> Program:
        """Select everything; outputs and states are written last."""
        self._declare()
        for node in self.function.nodes:
            start = len(self.program.body)
            self._select(node)
            self.made[node] = self.program.body[start:]
        self._write_outputs()
        self._write_states()
        return self.program

    def _declare(self) -> None:
        declare = self.program.declare
        for value in self.inputs:
            self.buffers[value] = declare(Region.INPUT, value.name, value.type)
            self.buffers[value].quantization = value.quantization
        for output in self.results:
            buffer = declare(Region.OUTPUT, output.name, output.value.type)
            buffer.quantization = output.quantization
            if output.value.producer is not None:
                self.outputs.setdefault(output.value, buffer)
        for constant in self.function.constants():
            self.buffers[constant] = declare(
                Region.CONSTANT, constant.name, constant.type, constant.content
            )
        for state in (*self.carried, *self.function.states()):
            self.buffers[state] = declare(Region.STATE, state.name, state.type)
            self.buffers[state].level = state.level

    def _select(self, node: Node) -> None:
        p = ProgramBuilder(self.program, node.origins or (node.name,))
        outs = tuple(self._result(p, value) for value in node.results)
        ins = tuple(None if v is None else self.buffers[v] for v in node.operands)
        if node.predicate is not None:
            p.predicate = self.buffers[node.predicate]
        if node.op.selects_itself():
            node.op.select(p, *outs, *ins)
        else:
            p.emit(node.op, outs, ins)

    def _result(self, p: ProgramBuilder, value: Value) -> Buffer:
        buffer = self.outputs.get(value) or p.alloc(value.name, value.type)
        self.buffers[value] = buffer
        return buffer

    def _write_outputs(self) -> None:
        """Copy what no node of its own produced: inputs, constants, values returned twice."""
        p = ProgramBuilder(self.program)
        for output, buffer in zip(self.results, self.program.outputs, strict=True):
            source = self.buffers[output.value]
            if source is not buffer:
                p.copy(buffer, source)

    def _write_states(self) -> None:
        p = ProgramBuilder(self.program)
        changes = [update for update in self.updates if update.value is not update.state]
        moves = [(self.buffers[u.state], self._settled(p, u.value)) for u in changes]
        for state, source in moves:
            p.copy(state, source)

    def _settled(self, p: ProgramBuilder, value: Value) -> Buffer:
        """The value in memory that storing other states does not change."""
        buffer = self.buffers[value]
        if buffer.region is not Region.STATE:
            return buffer
        saved = p.alloc(f"{value.name}.old", value.type)
        p.copy(saved, buffer)
        return saved


def _without(items: Sequence[ItemT], places: Iterable[int]) -> list[ItemT]:
    """The items but those at some places."""
    left_out = {*places}
    return [item for index, item in enumerate(items) if index not in left_out]
