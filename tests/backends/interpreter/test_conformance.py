"""The conformance kit on the interpreter, in its two kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from afterglow.backends.interpreter import Machine
from afterglow.runtime import CompiledFunction
from afterglow.testing import BackendConformance
from afterglow.types import Array


class InterpreterConformance(BackendConformance):
    complete = True
    ranged = True
    examples = 150
    more_examples = 3000

    def check_program(
        self, compiled: CompiledFunction, inputs: Sequence[Array], wanted: Sequence[Array]
    ) -> None:
        super().check_program(compiled, inputs, wanted)
        in_tiles = Machine(compiled.program, tile=2)  # small, so that an illegal stack goes wrong
        self.check_outputs(in_tiles.run(inputs, {}), wanted)


class TestInterpreter(InterpreterConformance):
    backend = "interpreter"
    onnx_stride = 1
    onnx_options: ClassVar = {"verify": True}
    onnx_unoptimised = True


class TestPrimitives(InterpreterConformance):
    backend = "primitives"
