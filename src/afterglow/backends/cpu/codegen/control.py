"""Control flow as calls: branches become calls with guards, loops functions of their own.

The bodies of If, Loop and Scan are programs that are planned by themselves; their arena is a part
of the workspace of the step, and so are copies of operands that bodies want without gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from afterglow.backends.cpu.codegen.calls import Call, Guard, Place
from afterglow.backends.cpu.codegen.frame import Frame, padded, shifted
from afterglow.backends.cpu.codegen.loops import Body, may_run_long, own_dims, write_loop
from afterglow.backends.cpu.llvm.emitter import Module
from afterglow.backends.cpu.llvm.types import spell
from afterglow.backends.cpu.target import Target
from afterglow.graph.function import subgraphs_of
from afterglow.instr import Buffer, Copy, Instr, KernelPlan, OpInstr, Program, Region, Stack
from afterglow.ops.control import If, Loop, Scan
from afterglow.runtime.native.convention import ALARMS, CONSTANTS, EXTENTS

COPIES, BODY = "copies", "body"
"""Workspaces of control flow: operands without gaps, and the arena of the bodies."""

CallsOf = Callable[[Instr, Frame], list[Call]]
"""The calls of an instruction."""


def is_control_flow(step: Instr) -> TypeGuard[OpInstr]:
    """Whether an instruction runs functions."""
    return isinstance(step, OpInstr) and bool(subgraphs_of(step.op))


def control_refusal(step: OpInstr, refusal: Callable[[Instr], str]) -> str:
    """Why the host must run control flow, or "". `refusal` is for other steps."""
    if type(step.op) not in (If, Loop, Scan) or not step.bodies:
        return f"there is no code for {step.op.mnemonic}"
    try:
        for buffer in (*step.outs, *(b for b in step.ins if b is not None)):
            spell(buffer.type.dtype)
    except TypeError:
        return "its elements are not of the machine's types"
    for body in step.bodies:
        if len(body.states) > len(step.op.carried_values()):
            return f"@{body.name} has state of its own"
        reasons = filter(None, (refusal(instruction) for instruction in body.body))
        for reason in reasons:
            return f"in @{body.name}, {reason}"
    return ""


def plan_control(step: OpInstr) -> KernelPlan:
    """The plan of an If, Loop or Scan whose bodies are planned."""
    sizes = {
        COPIES: sum(padded(b.type.nbytes) for b in _Operands(step).copies),
        BODY: max((body.arena_bytes or 0 for body in step.bodies), default=0),
    }
    plans = [inner.plan for body in step.bodies for inner in _planned(body)]
    return KernelPlan(
        "inline",
        cost=sum(plan.cost for plan in plans if plan is not None),
        workspace={name: size for name, size in sizes.items() if size},
        thread_bytes=max((plan.thread_bytes for plan in plans if plan is not None), default=0),
        alignment=max((plan.alignment for plan in plans if plan is not None), default=1),
    )


def _planned(body: Program) -> Iterator[OpInstr | Stack]:
    return (step for step in body.body if isinstance(step, (OpInstr, Stack)))


class ControlFlow:
    """Writes the control flow of one program; `modules` are the functions of its loops."""

    def __init__(self, target: Target, calls_of: CallsOf) -> None:
        self.target = target
        self.calls_of = calls_of
        self.modules: list[Module] = []
        self.may_run_long = False
        """Whether a loop looks for interrupts."""

    def calls(self, step: OpInstr, frame: Frame) -> list[Call]:
        """The calls of an If, Loop or Scan."""
        whole, places = _Operands(step), _workspaces(step, frame)
        inner = frame.knowing(_copies_at(whole.copies, places[COPIES]))
        write = self._choose if isinstance(step.op, If) else self._repeat
        before = [call for copy in whole.before for call in self.calls_of(copy, inner)]
        after = [call for copy in whole.after for call in self.calls_of(copy, inner)]
        return [*before, *write(whole.step, inner, places[BODY]), *after]

    def _choose(self, step: OpInstr, frame: Frame, arena: Place) -> list[Call]:
        """Both branches, each behind a guard, in the same memory."""
        condition, *captured = (frame.place(b) for b in step.ins if b is not None)
        results = [frame.place(b) for b in step.outs]
        calls = []
        for body, wanted in zip(step.bodies, (True, False), strict=True):
            places = dict(zip((*body.inputs, *body.outputs), (*captured, *results), strict=True))
            guards = (*frame.guards, Guard(condition, wanted))
            inside = replace(frame, buffers=places, arena=arena, guards=guards)
            calls.extend(self._calls_of_body(body, inside))
        return calls

    def _repeat(self, step: OpInstr, frame: Frame, arena: Place) -> list[Call]:
        """A function that loops, after copies of the first carried values."""
        (program,) = step.bodies
        is_interruptible = frame.interrupts is not None
        dims = (*frame.dims, *own_dims(step))
        own = Frame.of(program, frame.constants, dims, interruptible=is_interruptible)
        body = Body(program, self._calls_of_body(program, own), dims, is_interruptible)
        name = f"{step.op.mnemonic}_{len(self.modules)}"
        module, function = write_loop(self.target, name, step, body)
        self.modules.append(module)
        self.may_run_long |= may_run_long(step)
        given = [b for b in (*step.outs, *step.ins) if b is not None]
        cells = () if frame.interrupts is None else (frame.interrupts,)
        arguments = (
            *map(frame.place, given),
            (CONSTANTS, 0),
            arena,
            (ALARMS, 0),
            (EXTENTS, 0),
            *cells,
        )
        first = [
            call
            for result, place in zip(step.outs, _carried_places(step), strict=False)
            if (initial := step.ins[place]) is not None
            for call in self.calls_of(Copy(result, initial), frame)
        ]
        return [*first, Call(function, arguments, frame.guards)]

    def _calls_of_body(self, body: Program, frame: Frame) -> list[Call]:
        return [call for step in body.body for call in self.calls_of(step, frame)]


def _workspaces(step: OpInstr, frame: Frame) -> dict[str, Place]:
    """Where the workspaces of a planned step lie; those that are empty anywhere."""
    assert step.plan is not None
    places = zip(step.plan.workspace, map(frame.place, step.scratch), strict=True)
    return {COPIES: frame.arena, BODY: frame.arena, **dict(places)}


def _copies_at(copies: Sequence[Buffer], start: Place) -> dict[Buffer, Place]:
    """Where copies lie, one after the other."""
    sizes = [padded(copy.type.nbytes) for copy in copies]
    offsets = [sum(sizes[:number]) for number in range(len(sizes))]
    return {copy: shifted(start, offset) for copy, offset in zip(copies, offsets, strict=True)}


def _carried_places(step: OpInstr) -> range:
    """The places of the operands with which carried values begin: they belong to first results."""
    match step.op:
        case Loop(_, carried):
            return range(2, 2 + carried)
        case Scan(_, _, carried, _):
            return range(carried)
    return range(0)


class _Operands:
    """A step with dense operands and results, as bodies require: copies of those that are not."""

    def __init__(self, step: OpInstr) -> None:
        self.copies: list[Buffer] = []
        """What bodies work on instead of operands with gaps."""
        self.before: list[Copy] = []
        self.after: list[Copy] = []
        carried, parts = _carried_places(step), _parts(step)
        ins = [
            b if b is None or place in carried else self._read(b, is_part=b in parts)
            for place, b in enumerate(step.ins)
        ]
        outs = [self._written(b, is_part=b in parts) for b in step.outs]
        self.step = replace(step, ins=tuple(ins), outs=tuple(outs))

    def _read(self, buffer: Buffer, *, is_part: bool) -> Buffer:
        if _is_whole(buffer, is_part):
            return buffer
        copy = self._copy_of(buffer)
        self.before.append(Copy(copy, buffer))
        return copy

    def _written(self, buffer: Buffer, *, is_part: bool) -> Buffer:
        if _is_whole(buffer, is_part):
            return buffer
        copy = self._copy_of(buffer)
        self.after.append(Copy(buffer, copy))
        return copy

    def _copy_of(self, buffer: Buffer) -> Buffer:
        copy = Buffer(buffer.name, buffer.type, Region.ARENA)
        self.copies.append(copy)
        return copy


def _parts(step: OpInstr) -> set[Buffer | None]:
    """The operands and results of which each iteration has a part along the first axis."""
    if not isinstance(step.op, Scan):
        return set()
    first = step.op.carried
    scanned = step.ins[first : first + step.op.scanned]
    return {*scanned, *step.outs[first:]} - {*step.ins[first + step.op.scanned :]}


def _is_whole(buffer: Buffer, is_part: bool) -> bool:
    """Whether there are no gaps in a buffer, or in each of its parts along the first axis."""
    if not is_part:
        return buffer.is_dense
    type = buffer.type.with_shape(buffer.type.shape[1:])
    return Buffer("", type, buffer.region, strides=buffer.strides[1:]).is_dense
