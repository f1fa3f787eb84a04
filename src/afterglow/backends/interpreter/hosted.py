"""What the host runs of a compiled program: instructions that no machine code is made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from afterglow import ops  # noqa: F401  a program's text names ops of any family
from afterglow.backends.interpreter.machine import Machine, Run
from afterglow.graph import Function, Subgraph
from afterglow.graph.function import subgraphs_of
from afterglow.instr import OpInstr, Program, Region, Stack, parse_program, print_program
from afterglow.support.errors import UnsupportedError
from afterglow.types import Array
from afterglow.types.dtype import string


@dataclass(frozen=True)
class HostedProgram:
    """A program of which the host runs some instructions, by their places in its body."""

    program: Program
    steps: tuple[int, ...]
    constants: Mapping[str, int]
    """Where the constants lie that the host reads, by name."""
    unchecked: bool = False
    """Whether indices out of range become the nearest that are not."""

    @cached_property
    def machine(self) -> Machine:
        """What runs them, by the definitions of their ops."""
        return Machine(self.program, unchecked=self.unchecked)

    def start(
        self,
        arena: Array,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        states: Mapping[str, Array],
    ) -> HostedRun:
        """Begin a run on the memory that machine code uses."""
        return HostedRun(Run(self.machine, {"": arena}, inputs, outputs, states))

    def text(self) -> str:
        """The program, to be saved."""
        self._check_savable()
        return print_program(self.program)

    def describe(self) -> dict[str, Any]:
        """What is needed besides the text, as what JSON can hold."""
        return {
            "host_steps": list(self.steps),
            "host_constants": dict(self.constants),
            "host_texts": self._texts(),
            "functions": self._functions(),
            "unchecked": self.unchecked,
        }

    def _texts(self) -> dict[str, list[str]]:
        """Constants of texts that the host reads: they are no bytes."""
        texts = (buffer for buffer in self.program.constants if buffer.type.dtype is string)
        return {b.name: [str(text) for text in np.asarray(b.data).reshape(-1)] for b in texts}

    def _functions(self) -> list[str]:
        """The names of functions that machine code runs, but that the program names."""
        steps = (step for step in self.program.body if isinstance(step, OpInstr))
        carried = (subgraphs_of(step.op) for step in steps)
        return [subgraph.function.name for subgraphs in carried for subgraph in subgraphs]

    def _check_savable(self) -> None:
        for step in (self.program.body[index] for index in self.steps):
            for each in step.body if isinstance(step, Stack) else (step,):
                if isinstance(each, OpInstr) and subgraphs_of(each.op):
                    raise UnsupportedError(
                        f"a model whose {each.op.mnemonic} runs on the host cannot be saved",
                        where=each.origin,
                        help="keep the source model, and compile it where it is used",
                    )


@dataclass(frozen=True)
class HostedRun:
    """One run of what the host does."""

    run: Run

    def execute(self, index: int) -> None:
        """Run the instruction at a place in the program's body."""
        self.run.execute(self.run.machine.program.body[index])


def restore_hosted(text: str, constants: Array, data: Mapping[str, Any]) -> HostedProgram:
    """The program that was described so, with those of its constants that the host reads."""
    functions = {name: Subgraph(Function(name)) for name in data["functions"]}
    program = parse_program(text, functions=functions)
    offsets, texts = data["host_constants"], data["host_texts"]
    for buffer in program.constants:
        assert buffer.region is Region.CONSTANT
        if buffer.name in texts:
            buffer.data = np.array(texts[buffer.name], object).reshape(buffer.type.shape)
        elif buffer.name in offsets:
            start = offsets[buffer.name]
            raw = constants[start : start + buffer.type.nbytes]
            buffer.data = raw.view(buffer.type.dtype.numpy).reshape(buffer.type.shape)
    return HostedProgram(program, tuple(data["host_steps"]), offsets, data["unchecked"])
