"""From a planned program to machine code: kernels, the steps that call them, and a main function.

`main` has the steps done in order, by the team of threads it is given, on memory that a table of
bases tells.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from afterglow.backends.cpu.codegen.calls import (
    Call,
    Guard,
    Place,
    bases_in,
    know_dims,
    scratch_of,
)
from afterglow.backends.cpu.codegen.constants import Constants
from afterglow.backends.cpu.codegen.control import ControlFlow, control_refusal, is_control_flow
from afterglow.backends.cpu.codegen.frame import Frame
from afterglow.backends.cpu.codegen.steps import Segment, write_division, write_step
from afterglow.backends.cpu.codegen.write import refusal, symbol_of, write_kernel
from afterglow.backends.cpu.kernels.table import DIRECT
from afterglow.backends.cpu.llvm.emitter import FunctionSymbol, Module
from afterglow.backends.cpu.micro.kernel import (
    Alarm,
    DimExtent,
    Kernel,
    Operand,
    Packed,
    Parameter,
    Table,
)
from afterglow.backends.cpu.target import Target
from afterglow.backends.job import Job
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
    Wait,
    interface_of,
    ops_of,
)
from afterglow.runtime.native.convention import (
    ALARM_BYTES,
    ALARMS,
    ANY_ALARM,
    CONSTANTS,
    FIRST_ALARM,
)
from afterglow.runtime.native.program import CheckedIndex
from afterglow.support.errors import CompileError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import IndexRange
from afterglow.types.dtype import string, u8
from afterglow.types.extent import dims_of, largest, smallest

Alarms: TypeAlias = Mapping[int | None, int]
"""The numbers of alarms in a program, by their numbers in a kernel; that of all under None."""


HOST = KernelPlan(ON_HOST)
"""The plan of a step that the host runs, by the definition of its op, as it has no kernel."""
WHOLE_ON_HOST = KernelPlan("numpy")
"""The plan of an op that the host computes better than kernels for its parts would."""
PACKED = 2.5
"""Bytes of packed constants for each byte of a constant, as a rule at most."""


@dataclass
class Generated:
    """A program as code to compile: kernels by key, and what runs in which order."""

    program: Program
    target: Target
    parts: list[Segment | Instr] = field(default_factory=list)
    """Segments, and instructions that the host runs between them."""
    kernels: dict[str, Kernel] = field(default_factory=dict)
    constants: Constants = field(default_factory=Constants)
    host_constants: dict[str, int] = field(default_factory=dict)
    """Where the constants lie that the host reads, by name."""
    checks: list[CheckedIndex] = field(default_factory=list)
    """What each alarm is about, in the order in which they are run."""
    loops: list[Module] = field(default_factory=list)
    """Functions that call kernels again and again."""
    may_run_long: bool = False
    """Whether a loop looks for interrupts, if it is interruptible."""
    main: Module | None = None

    @property
    def scratch_bytes(self) -> int:
        """Memory that each thread needs."""
        return max((scratch_of(segment.calls) for segment in self.segments), default=0)

    @property
    def modules(self) -> list[Module]:
        """All code: the kernels, then what calls them."""
        main = [] if self.main is None else [self.main]
        return [*(kernel.module for kernel in self.kernels.values()), *self.loops, *main]

    @property
    def segments(self) -> list[Segment]:
        """What runs natively."""
        return [part for part in self.parts if isinstance(part, Segment)]


def generate(
    program: Program,
    target: Target,
    *,
    apart: bool = False,
    by_instruction: bool = False,
    constants: Constants | None = None,
    unchecked: bool = False,
    interruptible: bool = False,
    written: Callable[[Module], object] = lambda _: None,
) -> Generated:
    """Write all code of a program whose kernels are planned for the target.

    `apart`, each instruction is a segment of its own; `by_instruction`, each has steps of its own,
    which otherwise may do several small ones. Programs that are given the same constants
    share them. Indices out of range raise alarms unless they are `unchecked`. Loops that are
    `interruptible` look at a cell that the buffer table ends with. Each kernel's module is given to
    `written` as soon as it is.
    """
    generated = Generated(program, target)
    if constants is not None:
        generated.constants = constants
    raw = sum(buffer.type.nbytes for buffer in program.constants)
    generated.constants.expect(generated.constants.size + int(PACKED * raw))
    dims = tuple(dim.name for dim in interface_of(program).dims)
    writer = _Writer(generated, dims, unchecked=unchecked, written=written)
    frame = Frame.of(program, generated.constants, dims, interruptible=interruptible)
    for instruction in program.body:
        if is_on_host(instruction):
            generated.parts.append(instruction)
            for root in _read_by_host(instruction):
                generated.host_constants[root.name] = generated.constants.raw(root)
            continue
        calls = writer.calls(instruction, frame)
        if apart and calls:
            generated.parts.append(Segment())
        for call in calls:
            segment = _open_segment(generated.parts, by_instruction)
            segment.calls.append(call)
            segment.origins.append(instruction)
    generated.loops, generated.may_run_long = writer.control.modules, writer.control.may_run_long
    generated.main = _write_main(generated, dims)
    return generated


def host_steps(program: Program) -> list[tuple[Instr, str]]:
    """The instructions of a planned program that the host runs, and why."""
    return [(step, host_reason(step)) for step in program.body if is_on_host(step)]


def is_on_host(instruction: Instr) -> bool:
    """Whether the host runs an instruction: its plan says so, and a copy has none."""
    if isinstance(instruction, (OpInstr, Stack)):
        return instruction.plan in (HOST, WHOLE_ON_HOST)
    return bool(host_reason(instruction))


def host_reason(instruction: Instr) -> str:
    """Why there is no machine code for an instruction; nothing if there is."""
    step = as_step(instruction)
    job = None if step is None else Job.of(step)
    if step is None or job is None or job.is_empty:
        return ""
    return control_refusal(step, host_reason) if is_control_flow(step) else refusal(job)


class _Writer:
    """Turns instructions into calls, and writes the kernels that they call."""

    def __init__(
        self,
        generated: Generated,
        dims: Sequence[str],
        *,
        unchecked: bool,
        written: Callable[[Module], object],
    ) -> None:
        self.dims = dims
        self.target = generated.target
        self.unchecked = unchecked
        self.written = written
        self.kernels = generated.kernels
        self.checks = generated.checks
        self.control = ControlFlow(generated.target, self.calls)

    def calls(self, instruction: Instr, frame: Frame) -> list[Call]:
        """What is called for an instruction, on memory that lies as a frame says."""
        step = as_step(instruction)
        job = None if step is None else Job.of(step)
        if step is None or job is None or job.is_empty:
            return []
        frame = _guarded(step, frame)
        if is_control_flow(step):
            return self.control.calls(step, frame)
        kernel = self._kernel(job, _plan_of(step))
        memory = _KernelMemory(frame, _workspaces(step, frame), self._alarms(kernel, job))
        return [
            Call(f, tuple(memory.place(p, job) for p in f.parameters), frame.guards)
            for f in kernel.functions
        ]

    def _kernel(self, job: Job, plan: KernelPlan) -> Kernel:
        """The kernel of a job by a plan, written once."""
        key = f"{plan.variant}\n{job.key}"
        if key not in self.kernels:
            kernel = write_kernel(job, self.target, plan, unchecked=self.unchecked)
            self.kernels[key] = kernel
            self.written(kernel.module)
        return self.kernels[key]

    def _alarms(self, kernel: Kernel, job: Job) -> Alarms:
        """Where the alarms of a kernel lie."""
        step = job.anchor
        if step is None or not kernel.checks:
            return {}
        first = FIRST_ALARM + len(self.checks)
        self.checks += [
            CheckedIndex(
                step.origin or step.outs[0].name,
                step.op.mnemonic,
                check.operand,
                _told_range(check.allowed, self.dims),
            )
            for check in kernel.checks
        ]
        return {None: ANY_ALARM, **{n: first + n for n in range(len(kernel.checks))}}


def _told_range(allowed: IndexRange, dims: Sequence[str]) -> IndexRange:
    """A range that a caller is told: the widest, if extents that a loop knows decide it."""
    if all(dim.name in dims for dim in dims_of(allowed.low, allowed.high)):
        return allowed
    return IndexRange(smallest(allowed.low), largest(allowed.high))


def _guarded(step: OpInstr | Stack | Copy, frame: Frame) -> Frame:
    """The frame in which a step runs: with a guard if it has a predicate.

    Each chunk of the step looks at the guard. The main function cannot: a thread that comes late to
    it may find that the memory of the predicate is in use for something else.
    """
    members = ops_of(step)
    predicate = members[0].predicate if members else None
    if predicate is None:
        return frame
    return replace(frame, guards=(*frame.guards, Guard(frame.place(predicate), wanted=True)))


def _plan_of(step: OpInstr | Stack | Copy) -> KernelPlan:
    """The plan of a step; a copy has one kernel, which needs nothing."""
    if isinstance(step, Copy):
        return KernelPlan(DIRECT)
    if step.plan is None:
        raise CompileError(f"the kernel of {_named(step)} is not planned")
    return step.plan


def kernel_name(step: OpInstr | Stack | Copy) -> str:
    """The symbol of the kernel of a planned step."""
    return symbol_of(Job.of(step), _plan_of(step))


def _named(step: OpInstr | Stack) -> str:
    ops = (step,) if isinstance(step, OpInstr) else step.body
    return ", ".join(each.op.mnemonic for each in ops)


def _workspaces(step: OpInstr | Stack | Copy, frame: Frame) -> dict[str, Place]:
    """Where the workspaces of a step lie, by their names in its plan."""
    if isinstance(step, Copy) or step.plan is None:
        return {}
    return dict(zip(step.plan.workspace, map(frame.place, step.scratch), strict=True))


def as_step(instruction: Instr) -> OpInstr | Stack | Copy | None:
    """The step that kernels compute for an instruction; None if it needs no kernel."""
    match instruction:
        case Wait(transfer):
            return Copy(transfer.dest, transfer.src)
        case OpInstr() | Stack() | Copy():
            return instruction
    return None


def _read_by_host(instruction: Instr) -> Iterator[Buffer]:
    """The constants, as far as they are bytes, that an instruction on the host reads."""
    for _, buffer in instruction.accesses():
        root = buffer.root
        if root.region is Region.CONSTANT and root.type.dtype is not string:
            yield root


def _open_segment(parts: list[Segment | Instr], by_instruction: bool) -> Segment:
    """The segment that is being written: the last part, or a new one."""
    if not parts or not isinstance(parts[-1], Segment):
        parts.append(Segment(by_instruction=by_instruction))
    last = parts[-1]
    assert isinstance(last, Segment)
    return last


@dataclass(frozen=True)
class _KernelMemory:
    """The memory that a kernel uses when it is called for a step."""

    frame: Frame
    workspaces: Mapping[str, Place]
    alarms: Alarms

    def place(self, parameter: Parameter, job: Job) -> Place:
        """What a parameter of the kernel is given."""
        match parameter:
            case Alarm(number):
                return ALARMS, self.alarms[number] * ALARM_BYTES
            case Operand(number):
                return self.frame.place(job.buffers[number])
            case Packed(number):
                constants = self.frame.constants
                return CONSTANTS, constants.packed(job.buffers[number], parameter)
            case Table():
                return CONSTANTS, self.frame.constants.table(parameter)
            case DimExtent(name):
                return self.frame.extent(name)
        return self.workspaces[parameter.name]


def _write_main(generated: Generated, dims: Sequence[str]) -> Module:
    """The steps of all segments, equal ones once, and for each segment a main function."""
    module = Module(generated.target)
    written: dict[Hashable, FunctionSymbol] = {}
    for number, segment in enumerate(generated.segments):
        steps = segment.steps
        kinds = {step.key: step for step in steps}
        for key, step in kinds.items():
            if key not in written:
                written[key] = write_step(module, f"step_{len(written)}", step, dims)
        with module.function(f"main_{number}") as e:
            bases, team = e.pointer("bases", e.index_type), e.pointer("team", e.index_type)
            know_dims(e, bases_in(e, bases), dims)
            parallel_for = e.load_pointer(team, 0, u8)
            divisions = {key: write_division(e, step) for key, step in kinds.items()}
            for step in steps:
                function = e.address_of(written[step.key], u8)
                e.run_at(parallel_for, team, function, bases, *divisions[step.key])
    return module
