"""Running a compiled program one instruction at a time, each compared with what its ops mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afterglow.backends.interpreter import Machine, Run
from afterglow.backends.interpreter.compare import compare_step
from afterglow.backends.interpreter.hosted import HostedRun
from afterglow.instr import Program
from afterglow.runtime.buffers import HostBuffer, HostExecutable, host_array
from afterglow.runtime.device import DeviceBuffer, LoadOptions
from afterglow.runtime.native.executable import NativeExecutable
from afterglow.runtime.native.program import Native, NativeProgram
from afterglow.types import Array
from afterglow.types.dtype import string


class VerifyingExecutable(HostExecutable):
    """A compiled program whose every instruction has a main function of its own.

    Before each, the interpreter gets a copy of the memory; after it, what both wrote is compared.
    """

    def __init__(
        self,
        native: NativeProgram,
        program: Program,
        options: LoadOptions,
        *,
        unchecked: bool = False,
    ) -> None:
        self.native = NativeExecutable(native, options.threads, perf_map=options.perf_map)
        self.footprint = self.native.footprint
        self.machine = Machine(program, unchecked=unchecked)

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once; raises `VerifyError` at the first instruction that computes something else."""
        native = self.native
        inputs, outputs, context = native.begin(inputs, states)
        mine = Run(self.machine, {"": context.arena}, inputs, outputs, states)
        for part in native.native.parts:
            indices = part.instructions if isinstance(part, Native) else (part.index,)
            for index in indices:
                reference = _copied(mine, inputs, outputs, states)
                reference.execute(mine.program.body[index])
            native.run_part(part, context, HostedRun(mine))
            for index in indices:
                compare_step(index, mine.program.body[index], mine, reference)
        native.give_back(context)
        return outputs


def _copied(
    run: Run,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    states: Mapping[str, DeviceBuffer],
) -> Run:
    """A run that begins with a copy of all memory."""
    copied = Run(
        run.machine,
        {name: arena.copy() for name, arena in run.arenas.items()},
        [array.copy() for array in inputs],
        [array.copy() for array in outputs],
        {name: HostBuffer(s.type, host_array(s).copy()) for name, s in states.items()},
        run.program,
    )
    texts = ((b, array) for b, array in run.memory.items() if b.type.dtype is string)
    copied.memory.update({buffer: array.copy() for buffer, array in texts})
    return copied
