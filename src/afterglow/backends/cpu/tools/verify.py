"""Running a compiled program one instruction at a time, each compared with what its ops mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afterglow.backends.interpreter import Machine, Run
from afterglow.backends.interpreter.hosted import HostedRun
from afterglow.instr import Access, Buffer, Instr, Program
from afterglow.instr.printer import instruction_text
from afterglow.runtime.buffers import HostBuffer, HostExecutable, host_array
from afterglow.runtime.device import DeviceBuffer, LoadOptions
from afterglow.runtime.native.executable import NativeExecutable
from afterglow.runtime.native.program import Native, NativeProgram
from afterglow.support.errors import VerifyError
from afterglow.types import Array
from afterglow.types.dtype import string

TOLERANCE = 1e-4
"""How far a float may be off, by the largest magnitude of its tensor; narrow ones by the type."""
LEAST = 1e-6
"""A difference that does not count: what is left where large numbers cancel each other."""


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
                _compare(index, mine.program.body[index], mine, reference)
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


def _compare(index: int, step: Instr, mine: Run, reference: Run) -> None:
    hidden: set[Buffer] = {*getattr(step, "locals", ())}
    for access, buffer in step.accesses():
        if access.writes and access is not Access.SCRATCH and buffer not in hidden:
            problem = _difference(mine.array(buffer), reference.array(buffer))
            if problem:
                raise VerifyError(
                    f"instruction {index} writes something else to {buffer} than its ops mean",
                    excerpt=[*instruction_text(step).splitlines(), problem],
                    help="this is a fault of the compiler; backend='interpreter' is not affected",
                )


def _difference(got: Array, want: Array) -> str:
    """What is wrong with an array; nothing if it is close enough."""
    if got.dtype == object or got.dtype.kind in "biu" or got.dtype.name.startswith(("int", "uint")):
        wrong = np.asarray(got != want)
        return f"{int(wrong.sum()):,} of {got.size:,} elements differ" if wrong.any() else ""
    wide: Any = np.complex128 if got.dtype.kind == "c" else np.float64
    g, w = got.astype(wide), want.astype(wide)
    finite = np.isfinite(w)
    scale = max(1e-30, float(np.abs(w[finite]).max(initial=0.0)))
    narrow = got.dtype.itemsize < 4
    limit = (0.02 if narrow else TOLERANCE) * scale + LEAST
    apart = np.abs(np.subtract(g, w, where=finite, out=np.zeros_like(g)))
    near = apart <= limit
    same = np.where(finite, near, (g == w) | (np.isnan(g) & np.isnan(w)))
    if same.all():
        return ""
    worst = float(apart.max())
    return f"{int((~same).sum()):,} of {got.size:,} elements differ, by up to {worst:.3g}"
