"""Kernels under construction: their functions, parameters, and the memory that they share.

A kernel is one function or several, its *phases*, which run one after the other. A phase does
independent *units* of work, from `begin` to `end`: rows, panels, images, whatever the kernel likes.
Units are handed out to threads, so their results must not depend on who does which of them, and
every element is written by exactly one unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

import numpy as np

from afterglow.backends.cpu.llvm.emitter import Emitter, Module, Pointer, Value, convert
from afterglow.backends.cpu.micro.fusion import Sink, Source
from afterglow.backends.cpu.micro.packing import Pack
from afterglow.backends.cpu.target import Target
from afterglow.backends.job import Job
from afterglow.instr import Buffer, OpInstr
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, IndexRange
from afterglow.types.dtype import DType, i64, u8
from afterglow.types.extent import Dim, is_ranged, largest


@dataclass(frozen=True)
class Operand:
    """A parameter: where a buffer of the job begins; `number` is its place in `job.buffers`."""

    number: int


@dataclass(frozen=True, eq=False)
class Packed:
    """A parameter: a constant of the job, in another order."""

    number: int
    pack: Pack


@dataclass(frozen=True, eq=False)
class Table:
    """A parameter: numbers that the kernel itself needs, the same for all jobs with its key."""

    data: Array


@dataclass(frozen=True)
class Workspace:
    """A parameter: memory of that name in the kernel's plan, which its phases share."""

    name: str


@dataclass(frozen=True)
class Alarm:
    """A parameter: the flag that a failed bounds check raises; None for the flag of all checks."""

    number: int | None


@dataclass(frozen=True)
class Check:
    """A bounds check: the name of an operand in its op, and the allowed range of its numbers."""

    operand: str
    allowed: IndexRange


@dataclass(frozen=True)
class DimExtent:
    """A parameter: where the extent of a dimension lies, by its name."""

    name: str


Parameter = Operand | Packed | Table | Workspace | Alarm | DimExtent


@dataclass
class KernelFunction:
    """A finished phase: its symbol, its parameters, its number of units and its work."""

    symbol: str
    units: int
    work: float
    """FLOPs of all units: for the largest extents, or as an expression."""
    parameters: list[Parameter] = field(default_factory=list)
    scratch_bytes: int = 0
    beside: bool = False
    """Whether it may run at the same time as the phase before it."""
    share: float | None = None
    """What it counts for in the work of a run, if other than its own: it may stand for others."""
    stretches: int = 0
    """Stretches that its units are best done in, each by one thread; 0 if any units do as well."""

    @property
    def ranged_work(self) -> float:
        """Its work in a run; if it does not say, a unit's is always that at the largest extents."""
        if is_ranged(self.work) or not is_ranged(self.units):
            return self.work
        return self.units * max(1, round(self.work / largest(self.units)))


@dataclass(eq=False)
class KernelRequest:
    """A job to be computed on a target."""

    job: Job
    target: Target

    @property
    def step(self) -> OpInstr:
        """The anchor; of a job without one, its first step."""
        return self.job.anchor or self.job.after[0]


@dataclass(frozen=True)
class Storage:
    """Memory for some elements of a type; of a ranged number, for the most."""

    dtype: DType
    count: int

    @property
    def nbytes(self) -> int:
        """Bytes, up to where other memory may begin."""
        return -(-largest(self.count) * self.dtype.itemsize // ALIGNMENT) * ALIGNMENT


PADDED = "padded"
"""The name of a workspace that holds a copy of the first operand with its padding."""
LEAST_PADDED = 1 << 16
"""Bytes of such a copy below which it is cheaper than filling the edges of a halo."""


@dataclass(frozen=True)
class KernelNeeds:
    """The memory and packed constants that a kernel needs besides its operands.

    `workspace` is shared by its threads from phase to phase, `scratch` is for each thread while a
    phase runs; `packed` are the constant operands of the anchor that are packed at compile time.
    """

    workspace: Mapping[str, Storage] = field(default_factory=dict)
    scratch: Mapping[str, Storage] = field(default_factory=dict)
    packed: tuple[int, ...] = ()

    @property
    def halo(self) -> tuple[int, ...]:
        """The operands, by position, that are better padded in memory than copied."""
        copy = self.workspace.get(PADDED)
        return (0,) if copy is not None and copy.nbytes >= LEAST_PADDED else ()


class Kernel(KernelRequest):
    """The kernel of a job while it is being written."""

    def __init__(
        self, request: KernelRequest, name: str, needs: KernelNeeds, *, unchecked: bool = False
    ) -> None:
        super().__init__(request.job, request.target)
        self.name = name
        self.needs = needs
        self._given = request.job
        self.unchecked = unchecked
        """Whether indices out of range are clamped without a word."""
        self.checks: list[Check] = []
        self.module = Module(request.target)
        self.functions: list[KernelFunction] = []
        self._used = 1
        self._tables: dict[tuple[str, bytes], Table] = {}
        self._packed: dict[tuple[int, str], Packed] = {}

    @contextmanager
    def where(self, used: int) -> Iterator[None]:
        """Write phases that run where an extent is 1: where it is 0 they have no units."""
        self._used, before = used, self._used
        yield
        self._used = before

    @contextmanager
    def seen_as(self, job: Job) -> Iterator[None]:
        """Write phases for a job with the same buffers, some of them seen along other axes."""
        self.job, before = job, self.job
        yield
        self.job = before

    def given(self, number: int) -> Buffer:
        """A buffer as the caller of the kernel has it, by its place in `job.buffers`."""
        return self._given.buffers[number]

    @contextmanager
    def phase(
        self, units: int, work: float, name: str = "", *, beside: bool = False
    ) -> Iterator[Phase]:
        """Write a function that does units of work; `work` is about how many FLOPs they all are.

        Work bound by memory counts each byte as a FLOP or two. A phase `beside` those that were
        written just before it touches nothing that they write, nor writes what they touch.
        """
        symbol = f"{self.name}_{name}" if name else self.name
        units, work = units * self._used, work * self._used if is_ranged(work) else work
        with self.module.function(symbol) as emitter:
            function = KernelFunction(emitter.name, units, work)
            function.beside = beside and bool(self.functions)
            phase = Phase(self, emitter, function)
            yield phase
        self.functions.append(phase.function)

    def table(self, data: Array) -> Table:
        """Numbers as a parameter; equal ones are the same."""
        key = (data.dtype.str, data.tobytes())
        return self._tables.setdefault(key, Table(data))

    def alarm(self, check: Check) -> Alarm:
        """The alarm of a check as a parameter; equal checks have the same."""
        if check not in self.checks:
            self.checks.append(check)
        return Alarm(self.checks.index(check))

    def packed(self, number: int, name: str, pack: Pack) -> Packed:
        """A packed constant as a parameter; `name` distinguishes packings of one constant."""
        return self._packed.setdefault((number, name), Packed(number, pack))


class Phase:
    """One function of a kernel while it is being written: `e` writes its code."""

    def __init__(self, kernel: Kernel, emitter: Emitter, function: KernelFunction) -> None:
        self.kernel = kernel
        self.e = emitter
        self.function = function
        self._pointers: dict[object, Pointer] = {}
        emitter.dim_value = self._dim_value
        self.begin, self.end = self._bounds()

    def _dim_value(self, dim: Dim) -> Value:
        """The extent of a dimension in the run at hand."""
        place = self._parameter(DimExtent(dim.name), f"dim{len(self._pointers)}", i64, None)
        return convert(place.load(), self.e.index_type)

    def _bounds(self) -> tuple[Value, Value]:
        self._scratch = self.e.pointer("scratch", u8, align=ALIGNMENT)
        return self.e.count("begin"), self.e.count("end")

    @property
    def step(self) -> OpInstr:
        """The anchor of the job."""
        return self.kernel.step

    @property
    def target(self) -> Target:
        """The machine that the code is for."""
        return self.kernel.target

    @contextmanager
    def units(self) -> Iterator[Value]:
        """Repeat a block for each unit; the index is what `with` gives."""
        with self.e.loop(self.end, start=self.begin, name="unit") as unit:
            yield unit

    def pointer(self, buffer: Buffer) -> Pointer:
        """Where a buffer begins: its element 0. Ask before loops."""
        number = self.kernel.job.buffers.index(buffer)
        pointer = self._parameter(Operand(number), f"b{number}", buffer.type.dtype, None)
        return pointer + (buffer.start - self.kernel.given(number).start)

    def packed(self, buffer: Buffer, name: str, pack: Pack, dtype: DType | None = None) -> Pointer:
        """Where a constant lies that `pack` puts into another order when the model is compiled."""
        number = self.kernel.job.buffers.index(buffer)
        packed = self.kernel.packed(
            number, name, _pack_view(buffer, self.kernel.given(number), pack)
        )
        return self._parameter(packed, name, dtype or buffer.type.dtype, ALIGNMENT)

    def table(self, name: str, data: Array) -> Pointer:
        """Where numbers lie that the kernel itself needs, such as offsets."""
        return self._parameter(self.kernel.table(data), name, DType.of(data.dtype), ALIGNMENT)

    def workspace(self, name: str) -> Pointer:
        """Memory that all phases of this kernel share; nobody else has it while it runs."""
        storage = self.kernel.needs.workspace[name]
        return self._parameter(Workspace(name), name, storage.dtype, ALIGNMENT)

    def alarms(self, check: Check) -> tuple[Pointer, Pointer]:
        """What a check raises when a number is out of range: the alarm of all, then its own."""
        own = self.kernel.alarm(check)
        both = (Alarm(None), "any_alarm"), (own, f"alarm{own.number}")
        any_alarm, alarm = (self._parameter(alarm, name, i64, None) for alarm, name in both)
        return any_alarm, alarm

    def scratch(self, name: str) -> Pointer:
        """Memory for this thread alone, for as long as the function runs."""
        storage = self.kernel.needs.scratch[name]
        place = self.function.scratch_bytes
        self.function.scratch_bytes += storage.nbytes
        return (self._scratch + place).cast(storage.dtype).aligned(ALIGNMENT)

    def source(self, operand: int) -> Source:
        """An operand of the anchor, by rows, computed by the steps before it if there are any."""
        return Source(self, self.step, operand)

    def sink(self, result: int = 0) -> Sink:
        """A result of the anchor, by rows: the steps after it work on what is put there."""
        return Sink(self, result)

    def _parameter(
        self, parameter: Parameter, name: str, dtype: DType, align: int | None
    ) -> Pointer:
        if parameter not in self._pointers:
            self.function.parameters.append(parameter)
            self._pointers[parameter] = self.e.pointer(name, dtype, align=align)
        pointer = self._pointers[parameter]
        return pointer if pointer.dtype is dtype else pointer.cast(dtype)


def _pack_view(view: Buffer, given: Buffer, pack: Pack) -> Pack:
    """How to pack a view of a constant that is dense, given the constant."""
    if view is given:
        return pack
    start = view.start - given.start
    seen = Buffer(view.name, view.type, view.region, base=given, start=start, strides=view.strides)
    return lambda whole: pack(seen.of(np.ascontiguousarray(whole).reshape(-1)))
