"""Running a compiled program in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from afterglow.runtime.buffers import HostExecutable, host_array
from afterglow.runtime.device import DeviceBuffer, Footprint, StepName
from afterglow.runtime.donation import donatable
from afterglow.runtime.extents import ExtentReader
from afterglow.runtime.native.convention import (
    ALARM_BYTES,
    ALARMS,
    ARENA,
    CONSTANTS,
    EXTENTS,
    FIRST_OTHER,
    RUN_ALONE,
    alarm_bytes,
    counter_bytes,
)
from afterglow.runtime.native.interrupts import QUIET, interruptible
from afterglow.runtime.native.load import load_image
from afterglow.runtime.native.machine import check_runs_here, usable_cores
from afterglow.runtime.native.memory import aligned_bytes, empty_bytes
from afterglow.runtime.native.outputs import OutputArrays
from afterglow.runtime.native.perf import write_perf_map
from afterglow.runtime.native.pool import Pool, process_pool
from afterglow.runtime.native.program import (
    Host,
    HostRun,
    Native,
    NativeProgram,
    parsed_step,
    raise_alarm,
)
from afterglow.runtime.native.stream_set import CpuStream, stream_set
from afterglow.runtime.native.timed_team import TimedTeam
from afterglow.runtime.threads import threads_of_stream
from afterglow.runtime.trace import Recording
from afterglow.types import Array
from afterglow.types.extent import Extents

MOST_REMEMBERED = 4096
"""Runs with other extents for which it is remembered whether they are worth several threads."""

_NONE: Mapping[int, Array] = {}
_addressof = ctypes.addressof
_from_buffer: Callable[[Any], Any] = ctypes.c_char.from_buffer
_NO_BUFFER = (ValueError, TypeError, BufferError)
"""What is raised for arrays that are empty, cannot be written, or hold what only NumPy knows."""
_MAIN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class NativeExecutable(HostExecutable):
    """A compiled program, loaded; may be run by several threads at once.

    Each run has a context of its own: memory that runs one after the other use again, on the same
    stream if there are several, so that it is near the cores that touched it first.
    """

    def __init__(
        self,
        native: NativeProgram,
        threads: int | None = None,
        *,
        perf_map: bool = False,
        streams: int = 1,
    ) -> None:
        check_runs_here(native.needs)
        self.native = native
        self.threads = threads_of_stream(threads, streams) or usable_cores()
        self.streams = streams
        self._stream_set = stream_set(streams, self.threads)
        self.constants = aligned_bytes(native.constants)
        self.loaded = load_image(native.image, file=native.code_file)
        if perf_map:
            write_perf_map(self.loaded)
        self._near = {0 if self._stream_set is None else self._stream_set.home: self.constants}
        """Constants by the node of the memory that they are in."""
        self._contexts: dict[int, list[Context]] = {place: [] for place in range(streams)}
        """Contexts that no run has, by streams."""
        self._shared: dict[tuple[str | int, ...], bool] = {}
        """Whether parts are worth several threads, by their names and the extents of a run."""
        address = ctypes.c_void_p
        self._run_alone = self.loaded.function(RUN_ALONE, address, address, address)
        self._mains = self.loaded.addresses
        interface = native.interface
        self._extents = ExtentReader.of(interface) if interface.dims else None
        self._outputs = OutputArrays([port.type for port in interface.outputs])
        self._donates = any(port.donated for port in interface.inputs)

    @property
    def footprint(self) -> Footprint:
        """Constants, code, and the memory of threads."""
        native = self.native
        scratch = native.scratch_bytes * self.threads
        return Footprint(self.constants.nbytes, native.image.size, scratch)

    def run(
        self,
        inputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        targets: Mapping[int, Array] = _NONE,
    ) -> list[Array]:
        """Run once on arrays of exactly the input types; outputs are written to `targets`, if any.

        These are arrays by the places of outputs; others are new.
        """
        if self._stream_set is None:
            return self._run(inputs, states, targets)
        return self._stream_set.run(lambda: self._run(inputs, states, targets))

    def _run(
        self,
        inputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        targets: Mapping[int, Array],
    ) -> list[Array]:
        inputs, outputs, context = self.begin(inputs, states, targets)
        host = self.start_host(context, inputs, outputs, states)
        for part in self.native.parts:
            self.run_part(part, context, host)
        self.give_back(context)
        return outputs

    def run_into(
        self,
        inputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        targets: Mapping[int, Array],
    ) -> list[Array]:
        """Run once; the outputs at the places of `targets` are these arrays, others are new."""
        return self.run(inputs, states, targets)

    def steps(self) -> list[StepName]:
        """The steps of machine code, and the instructions that the host runs between them."""
        names = iter(self.native.step_names)
        found: list[StepName] = []
        for part in self.native.parts:
            if isinstance(part, Host):
                assert self.native.host is not None
                found.append(self.native.host.step(part.index))
            else:
                found.extend(parsed_step(next(names)) for _ in range(part.steps))
        return found

    def time_steps(
        self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
    ) -> list[float]:
        """Run once on one thread; the seconds of each step."""
        return self._run_timed(inputs, states)[1].seconds

    def run_recorded(
        self, here: Recording, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
    ) -> list[Array]:
        """Run once on one thread, and add each step to a trace."""
        outputs, team = self._run_timed(inputs, states)
        for step, (began, ended) in zip(self.steps(), team.times, strict=True):
            here.trace.add(
                here.row,
                step.kernel,
                began,
                ended,
                kind="step",
                request=here.request,
                node=", ".join(step.origins),
                on="host" if step.on_host else "cpu",
            )
        return outputs

    def _run_timed(
        self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
    ) -> tuple[list[Array], TimedTeam]:
        """Run once on one thread; the outputs, and what has the times of the steps."""
        inputs, outputs, context = self.begin(inputs, states)
        host = self.start_host(context, inputs, outputs, states)
        team = TimedTeam(context.scratch)
        for part in self.native.parts:
            if isinstance(part, Host):
                started = perf_counter()
                self.run_part(part, context, host)
                team.times.append((started, perf_counter()))
            else:
                _MAIN(self._mains[part.main])(context.bases_address, team.address)
        self.give_back(context)
        return outputs, team

    def prepared(
        self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
    ) -> Sequence[Array]:
        """The inputs as machine code can use them, copied only where that must be."""
        if self._donates:
            inputs = donatable(self.native.interface, inputs, states)
        return [array if array.flags.carray else _usable(array) for array in inputs]

    def begin(
        self,
        inputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        targets: Mapping[int, Array] = _NONE,
    ) -> tuple[Sequence[Array], list[Array], Context]:
        """The inputs as machine code can use them, arrays for the outputs, and a context."""
        inputs = self.prepared(inputs, states)
        reader = self._extents
        extents = {} if reader is None else reader.read(inputs, states)
        outputs = self._outputs.make(extents, targets)
        return inputs, outputs, self._take_context(inputs, outputs, states, extents)

    def _take_context(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        extents: Extents,
    ) -> Context:
        """A context that nobody else uses, with the addresses of these arrays and the extents."""
        stream = None if self._stream_set is None else self._stream_set.held
        place = 0 if stream is None else stream.place
        try:
            context = self._contexts[place].pop()
        except IndexError:  # asking first would not help: another thread may take the last one
            context = Context(self, self._constants_near(stream), place)
        bases = context.bases
        arrays = [*inputs, *outputs]
        if states:
            arrays += map(host_array, states.values())
        for place, array in enumerate(arrays, FIRST_OTHER):
            try:  # as `address_of` begins, without a call
                bases[place] = _addressof(_from_buffer(array))
            except _NO_BUFFER:
                bases[place] = address_of(array)
        if extents and context.known is not extents:
            context.extents[:] = [*extents.values()]
            context.known = extents
        return context

    def _constants_near(self, stream: CpuStream | None) -> Array:
        """The constants in the memory near a stream: copied there by the first run, on its cores.

        A system puts memory near the core that writes it first.
        """
        if stream is None:
            return self.constants
        if stream.node not in self._near:
            copy = empty_bytes(self.constants.nbytes)
            copy[:] = self.constants
            self._near.setdefault(stream.node, copy)
        return self._near[stream.node]

    def start_host(
        self,
        context: Context,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
    ) -> HostRun | None:
        """Begin what the host does of a run, if it does something."""
        host = self.native.host
        return None if host is None else host.start(context.arena, inputs, outputs, states)

    def give_back(self, context: Context) -> None:
        """End a run: let others use its context, if it raised no alarm."""
        if context.any_alarm.value:
            self.check_alarms(context)
        self._contexts[context.place].append(context)

    def check_alarms(self, context: Context) -> None:
        """Raise an error if machine code met an index that is out of range."""
        if context.any_alarm.value:
            raise_alarm(self.native.checks, context.alarms, context.known)

    def run_part(self, part: Native | Host, context: Context, host: HostRun | None) -> None:
        """Run machine code, or have the host run an instruction."""
        if isinstance(part, Host):
            assert host is not None
            self.check_alarms(context)
            host.execute(part.index)
            return
        if self.native.may_run_long:
            with interruptible() as cell:
                context.bases[-1] = cell
                self._run_native(part, context)
        else:
            self._run_native(part, context)

    def _is_shared(self, part: Native, context: Context) -> bool:
        """Whether several threads are worth it; what depends on extents is asked once for each."""
        if not context.known:
            return part.is_shared
        key: tuple[str | int, ...] = (part.main, *context.known.values())
        known = self._shared.get(key)
        if known is None:
            if len(self._shared) >= MOST_REMEMBERED:
                self._shared.clear()
            known = self._shared[key] = part.is_shared_at(context.known)
        return known

    @property
    def _stream(self) -> CpuStream | None:
        """The stream that the calling thread has, if there are several."""
        return None if self._stream_set is None else self._stream_set.held

    def _pool(self) -> Pool:
        """The threads that share its steps."""
        stream = self._stream
        if stream is not None:
            return stream.pool(lambda: self.native.pool)
        return process_pool(lambda: self.native.pool)

    def _run_native(self, part: Native, context: Context) -> None:
        main = self._mains[part.main]
        if self.threads == 1 or not self._is_shared(part, context):
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


class Context:
    """The memory of a run: the table of bases, the arena, and what kernels and threads need."""

    def __init__(self, executable: NativeExecutable, constants: Array, place: int) -> None:
        self.place = place
        """Of the stream that uses it."""
        native, interface = executable.native, executable.native.interface
        steps = max((p.steps for p in native.parts if isinstance(p, Native)), default=0)
        self.scratch_bytes = native.scratch_bytes
        self.arena = empty_bytes(native.arena_bytes)
        self._kept = [
            empty_bytes(self.scratch_bytes * executable.threads),
            empty_bytes(counter_bytes(steps, executable.threads)),
        ]
        self.scratch, self.counters = (array.ctypes.data for array in self._kept)
        self.alarms = np.zeros(max(alarm_bytes(len(native.checks)), ALARM_BYTES), np.uint8)
        self.any_alarm = ctypes.c_int64.from_address(self.alarms.ctypes.data)
        others = len(interface.inputs) + len(interface.outputs) + len(interface.states)
        self.bases: Any = (ctypes.c_void_p * (FIRST_OTHER + others + 1))()
        self.bases[FIRST_OTHER + others] = QUIET
        self.bases[ARENA] = self.arena.ctypes.data
        self.bases[CONSTANTS] = constants.ctypes.data
        self.bases[ALARMS] = self.alarms.ctypes.data
        self.known: Extents = {}
        """What the extents were set from."""
        self.extents: Any = (ctypes.c_int64 * len(interface.dims))()
        self.bases[EXTENTS] = ctypes.addressof(self.extents)
        self.bases_address = ctypes.addressof(self.bases)


def address_of(array: Array) -> int:
    """Where the elements of an array begin.

    The first way is seven times as fast as the second, and not there for all arrays.
    """
    try:
        return _addressof(_from_buffer(array))
    except _NO_BUFFER:
        address: int = array.__array_interface__["data"][0]
        return address


def _usable(array: Array) -> Array:
    """The array itself if its elements lie in order and where their type wants them."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned:
        return array
    return np.ascontiguousarray(array) if not flags.c_contiguous else array.copy()
