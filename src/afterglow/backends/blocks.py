"""Programs on blocks of bytes: what backends share whose devices use the host's memory.

A program works on blocks: one of all constants, the arena, and one for each input, output and
state. Code generation asks `Blocks` where a buffer is; `BlockExecutable` has the blocks of a run.
The host runs steps that the device cannot, on the same blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from afterglow.backends.backend import Backend, Settings, TargetInfo
from afterglow.backends.interpreter.hosted import HostedProgram, restore_hosted
from afterglow.instr import (
    ON_HOST,
    Buffer,
    Copy,
    Instr,
    KernelPlan,
    OpInstr,
    Program,
    Region,
    Stack,
    interface_of,
)
from afterglow.memory import MAIN_MEMORY, MemorySpace
from afterglow.ops.movement import Expand, Transpose
from afterglow.passes import Pass
from afterglow.runtime.artifact import Artifact, Section
from afterglow.runtime.buffers import HostBuffer, HostExecutable, host_array
from afterglow.runtime.device import DeviceBuffer, DeviceInfo, Footprint, LoadOptions
from afterglow.runtime.donation import donatable
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import string

CONSTANTS, ARENA = "const", "arena"
"""The names of blocks; the others are `in0`, `in1` …, `out0` … and `state0` …, by number."""
_HOST_COST = 100.0
"""What an element costs that the host computes, in units of a fast device."""
HostStep: TypeAlias = Callable[[int], None]
"""Runs the step at a place in the body of the program on the host."""


class Blocks:
    """The blocks of a planned program, and where its buffers are in them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.offsets: dict[str, int] = {}
        """Where constants are in their block, by name; strings are not."""
        data = bytearray()
        for buffer in program.constants:
            if buffer.type.dtype is not string:
                self.offsets[buffer.name] = len(data)
                data += np.ascontiguousarray(buffer.data).tobytes()
                data += bytes(-len(data) % ALIGNMENT)
        self.constants = bytes(data)
        groups = {"in": program.inputs, "out": program.outputs, "state": program.states}
        self._names = {
            b: f"{kind}{i}" for kind, group in groups.items() for i, b in enumerate(group)
        }

    def place(self, buffer: Buffer) -> tuple[str, int]:
        """The block that a buffer is in, and the byte of it where its first element begins."""
        root, start = buffer.root, buffer.start * buffer.type.dtype.itemsize
        if root.region is Region.CONSTANT:
            return CONSTANTS, start + self.offsets[root.name]
        if root.region is Region.ARENA:
            assert root.address is not None, "memory is planned before code is generated"
            return ARENA, start + root.address
        return self._names[root], start

    def artifact(
        self, device: str, sections: Mapping[str, Section], *, unchecked: bool = False
    ) -> Artifact:
        """The sections of generated code, the constants, and what the host runs."""
        steps = [i for i, step in enumerate(self.program.body) if runs_on_host(step)]
        hosted = HostedProgram(self.program, tuple(steps), self.offsets, unchecked)
        manifest = {"host": hosted.describe()} if steps else {}
        stored = hosted.sections() if steps else {}
        return Artifact(
            device,
            interface_of(self.program),
            self.program.planned,
            manifest,
            {CONSTANTS: self.constants, **sections, **stored},
        )


def runs_on_host(step: Instr) -> bool:
    """Whether the host runs a step: it was planned so, or moves strings."""
    if isinstance(step, Copy):
        return step.dest.type.dtype is string
    return isinstance(step, OpInstr) and step.plan is not None and step.plan.algorithm == ON_HOST


def lowered_or_hosted(step: OpInstr | Stack) -> Sequence[KernelPlan]:
    """The plans of a step that a device cannot compute: the host runs what cannot be lowered.

    Ops on strings are not lowered either; a stack is not formed.
    """
    if isinstance(step, Stack):
        return ()
    buffers = (*step.outs, *(b for b in step.ins if b is not None))
    if step.op.decomposes() and not any(b.type.dtype is string for b in buffers):
        return ()
    return (KernelPlan(ON_HOST, cost=_HOST_COST * sum(b.type.size for b in buffers)),)


def as_copy(step: Instr) -> Copy | None:
    """A step that only moves numbers, as a copy from a view in the shape of the result."""
    match step:
        case Copy(dest, src):
            pass
        case OpInstr(Transpose(perm), (dest,), (Buffer() as x,)):
            src = x.along(dest.type.shape, [x.strides[axis] for axis in perm])
        case OpInstr(Expand(), (dest,), (Buffer() as x,)):
            src = x.broadcast(dest.type.shape)
        case _:
            return None
    return None if src.type.dtype is string else Copy(dest, src)


class BlockExecutable(HostExecutable):
    """A program whose code works on blocks of bytes in the host's memory."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.constants = np.frombuffer(artifact.sections[CONSTANTS], np.uint8)
        host = artifact.manifest.get("host")
        self._hosted = host and restore_hosted(host, artifact.sections, self.constants)

    @property
    def footprint(self) -> Footprint:
        """The constants."""
        return Footprint(weight_bytes=len(self.constants))

    @abstractmethod
    def execute(self, blocks: Mapping[str, Array], on_host: HostStep) -> None:
        """Run the code once, on blocks of bytes by name."""

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once, on an arena of its own."""
        interface = self.artifact.interface
        given = [np.ascontiguousarray(array) for array in donatable(interface, inputs, states)]
        outputs = [np.empty(port.type.shape, port.type.dtype.numpy) for port in interface.outputs]
        arena = np.empty(self.artifact.plan.arena_bytes, np.uint8)
        held = [host_array(states[port.name]) for port in interface.states]
        groups = {"in": given, "out": outputs, "state": held}
        blocks = {CONSTANTS: self.constants, ARENA: arena}
        for kind, arrays in groups.items():
            numbers = ((i, array) for i, array in enumerate(arrays) if array.dtype != object)
            blocks.update((f"{kind}{i}", a.reshape(-1).view(np.uint8)) for i, a in numbers)
        hosted = self._hosted and self._hosted.start(arena, given, outputs, states)
        self.execute(blocks, hosted.execute if hosted else _no_step)
        return outputs


def _no_step(index: int) -> None:
    raise AssertionError(f"the host runs no step {index}")


@dataclass(frozen=True)
class BlockDevice:
    """A device that runs code on blocks; all devices of the name run the same code."""

    info: DeviceInfo
    executable: Callable[[Artifact], BlockExecutable]

    @property
    def name(self) -> str:
        """What artifacts for it call it."""
        return self.info.name

    def describe(self) -> DeviceInfo:
        """What it is, and how fast."""
        return self.info

    def identity(self) -> str:
        """Nothing: code is the same for each."""
        return ""

    def load(self, artifact: Artifact, options: LoadOptions | None = None) -> BlockExecutable:
        """Make a compiled program ready to run."""
        return self.executable(artifact)

    def allocate(self, type: TensorType) -> HostBuffer:
        """A buffer of zeros in the host's memory."""
        return HostBuffer(type)


@dataclass(frozen=True)
class NamedTarget:
    """A target that is known by its name, has one memory, and runs on every machine."""

    name: str = "host"
    memories: tuple[MemorySpace, ...] = (MAIN_MEMORY,)

    def missing_here(self) -> Sequence[str]:
        """Nothing."""
        return ()

    def reads(self, storage: DType) -> bool:
        """Every element type."""
        return True

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class BlockBackend(ABC):
    """Base of backends whose code works on blocks, for targets that have names."""

    settings: Settings
    name: ClassVar[str]
    preparation: ClassVar[tuple[Pass, ...]] = ()
    why_on_host: ClassVar[str] = "the device has no instruction for it"

    @property
    def device(self) -> str:
        """The device of the same name."""
        return self.name

    @property
    def target(self) -> NamedTarget:
        """The one that the settings name."""
        return NamedTarget(self.settings.target)

    @abstractmethod
    def plans(self, step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        """See `Backend`; `lowered_or_hosted` has the plans of what the device cannot compute."""

    @abstractmethod
    def sections(self, blocks: Blocks) -> Mapping[str, Section]:
        """The generated code of a program, by name; what the host runs is no part of it."""

    def compile(self, program: Program) -> Artifact:
        """The code with the constants, and what the host runs."""
        blocks = Blocks(program)
        unchecked = self.settings.policy.unchecked
        return blocks.artifact(self.device, self.sections(blocks), unchecked=unchecked)

    def host_steps(self, program: Program) -> Sequence[tuple[Instr, str]]:
        """What the host runs, and why."""
        return [(step, self.why_on_host) for step in program.body if runs_on_host(step)]


@dataclass(frozen=True)
class NamedTargets:
    """A factory of backends for targets that have names, the default first."""

    name: str
    summaries: Mapping[str, str]
    """What there is to say about each target."""
    backend: Callable[[Settings], Backend]

    @property
    def device(self) -> str:
        """The device of the same name."""
        return self.name

    def __call__(self, settings: Settings) -> Backend:
        """The backend, if there is such a target."""
        if settings.target not in self.summaries:
            raise UsageError(
                f"backend {self.name!r} has no target {settings.target!r}",
                help=f"there are {', '.join(self.summaries)}",
            )
        return self.backend(settings)

    def targets(self) -> Sequence[TargetInfo]:
        """All of them."""
        return [TargetInfo(name, summary) for name, summary in self.summaries.items()]
