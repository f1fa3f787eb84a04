"""Running a compiled program in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afterglow.backends.backend import Footprint
from afterglow.backends.cpu.artefact import Artefact, Host, Native
from afterglow.backends.cpu.calls import ARENA, CONSTANTS, FIRST_OTHER, WORKSPACE
from afterglow.backends.cpu.image import load_image, write_perf_map
from afterglow.backends.cpu.load import check_runs_here
from afterglow.backends.cpu.memory import aligned_bytes, empty_bytes
from afterglow.backends.cpu.outputs import OutputArrays
from afterglow.backends.cpu.pool import COUNTER_BYTES, RUN_ALONE, Pool, shared_pool
from afterglow.backends.cpu.target import Target
from afterglow.backends.interpreter import Machine, Run
from afterglow.backends.interpreter.machine import spare_lent
from afterglow.graph import Array

_BYTE = ctypes.c_char


class NativeExecutable:
    """A compiled program, loaded; may be run by several threads at once.

    Each run has a context of its own: memory that runs one after the other use again.
    """

    def __init__(
        self, artefact: Artefact, threads: int | None = None, *, perf_map: bool = False
    ) -> None:
        check_runs_here(artefact.target)
        self.artefact = artefact
        self.threads = threads or Target.host().cores
        self.constants = aligned_bytes(artefact.constants)
        self.loaded = load_image(artefact.image, file=artefact.code_file)
        if perf_map:
            write_perf_map(self.loaded)
        self.host = Machine(artefact.program) if artefact.program and artefact.uses_host else None
        self._contexts: list[Context] = []
        address = ctypes.c_void_p
        self._run_alone = self.loaded.function(RUN_ALONE, address, address, address)
        self._mains = self.loaded.addresses
        interface = artefact.interface
        types = [(port.type.shape, port.type.dtype.numpy) for port in interface.outputs]
        self._outputs = OutputArrays(types)
        self._lends = any(port.lent for port in interface.inputs)

    @property
    def footprint(self) -> Footprint:
        """Constants, code, and the memory of kernels and threads."""
        artefact = self.artefact
        scratch = artefact.workspace_bytes + artefact.scratch_bytes * self.threads
        return Footprint(self.constants.nbytes, artefact.image.size, scratch)

    def run(self, inputs: Sequence[Array], states: Mapping[str, Array]) -> list[Array]:
        """Run once on arrays of exactly the input types."""
        inputs = self.prepared(inputs, states)
        outputs = self.empty_outputs()
        context = self.take_context(inputs, outputs, states)
        host = None
        if self.host is not None:
            host = Run(self.host, {"": context.arena}, inputs, outputs, states)
        for part in self.artefact.parts:
            self.run_part(part, context, host)
        self.give_back(context)
        return outputs

    def prepared(self, inputs: Sequence[Array], states: Mapping[str, Array]) -> Sequence[Array]:
        """The inputs as machine code can use them, copied only where that must be."""
        if self._lends:
            inputs = spare_lent(self.artefact.interface, inputs, states)
        return [array if array.flags.carray else _usable(array) for array in inputs]

    def empty_outputs(self) -> list[Array]:
        """Arrays for the outputs."""
        return self._outputs.make()

    def take_context(
        self, inputs: Sequence[Array], outputs: Sequence[Array], states: Mapping[str, Array]
    ) -> Context:
        """A context that nobody else uses, with the addresses of these arrays."""
        try:
            context = self._contexts.pop()
        except IndexError:  # asking first would not help: another thread may take the last one
            context = Context(self)
        bases = context.bases
        for place, array in enumerate((*inputs, *outputs, *states.values()), FIRST_OTHER):
            bases[place] = address_of(array)
        return context

    def give_back(self, context: Context) -> None:
        """Let other runs use a context."""
        self._contexts.append(context)

    def run_part(self, part: Native | Host, context: Context, host: Run | None) -> None:
        """Run machine code, or have the host run an instruction."""
        if isinstance(part, Host):
            assert host is not None
            host.execute(host.machine.program.body[part.index])
            return
        main = self._mains[part.main]
        if self.threads == 1 or not part.is_shared:
            self._run_alone(main, context.bases_address, context.scratch)
            return
        self._pool().run(
            main,
            context.bases_address,
            context.scratch,
            context.scratch_bytes,
            context.counters,
            part.steps,
            self.threads,
        )

    def _pool(self) -> Pool:
        image = self.artefact.pool
        return shared_pool() if image is None else shared_pool(lambda: image)


class Context:
    """The memory of a run: the table of bases, the arena, and what kernels and threads need."""

    def __init__(self, executable: NativeExecutable) -> None:
        artefact, interface = executable.artefact, executable.artefact.interface
        steps = max((p.steps for p in artefact.parts if isinstance(p, Native)), default=0)
        self.scratch_bytes = artefact.scratch_bytes
        self.arena = empty_bytes(artefact.arena_bytes)
        self._kept = [
            empty_bytes(artefact.workspace_bytes),
            empty_bytes(self.scratch_bytes * executable.threads),
            empty_bytes(steps * COUNTER_BYTES),
        ]
        workspace, self.scratch, self.counters = (array.ctypes.data for array in self._kept)
        others = len(interface.inputs) + len(interface.outputs) + len(interface.states)
        self.bases: Any = (ctypes.c_void_p * (FIRST_OTHER + others))()
        self.bases[ARENA] = self.arena.ctypes.data
        self.bases[CONSTANTS] = executable.constants.ctypes.data
        self.bases[WORKSPACE] = workspace
        self.bases_address = ctypes.addressof(self.bases)


def address_of(array: Array) -> int:
    """Where the elements of an array begin.

    The first way is seven times as fast as the second, and not there for arrays that are empty,
    cannot be written, or hold what only NumPy knows.
    """
    try:
        return ctypes.addressof(_BYTE.from_buffer(array))  # type: ignore[arg-type]
    except (ValueError, TypeError, BufferError):
        address: int = array.__array_interface__["data"][0]
        return address


def _usable(array: Array) -> Array:
    """The array itself if its elements lie in order and where their type wants them."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned:
        return array
    return np.ascontiguousarray(array) if not flags.c_contiguous else array.copy()
