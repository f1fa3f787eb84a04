"""A scan as steps of the device: those of its body, once for each iteration.

What is carried lies in the results of the scan, where the body updates it in place. The body's own
memory is a workspace of the scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from afterglow.backends.blocks import runs_on_host
from afterglow.instr import Buffer, Copy, Instr, KernelPlan, OpInstr, Program, Region, Stack
from afterglow.ops.control import Scan

REPEATED = "repeated"
"""The algorithm of a scan whose iterations the device runs."""
BODY = "body"
MOST_LAUNCHES = 4096


def plan_scan(step: OpInstr) -> KernelPlan:
    """The plan of a scan that the device can run."""
    (body,) = step.bodies
    assert isinstance(step.op, Scan)
    planned = (inner.plan for inner in body.body if isinstance(inner, (OpInstr, Stack)))
    once = sum(plan.cost for plan in planned if plan is not None)
    room = {BODY: body.arena_bytes} if body.arena_bytes else {}
    return KernelPlan(REPEATED, cost=once * step.op.length, workspace=room)


def scan_refusal(steps: Sequence[OpInstr]) -> str:
    """Why the host must run steps of which one is a scan, or an empty string."""
    step = steps[0]
    if not isinstance(step.op, Scan) or not step.bodies or len(steps) > 1:
        return "there is no kernel for scan"
    (body,) = step.bodies
    inner = [*_steps(body)]
    if len(body.states) != step.op.carried:
        return f"@{body.name} has state of its own"
    if any(runs_on_host(each) or _is_repeated(each) for each in inner):
        return f"the device cannot run all of @{body.name}"
    if len(inner) * step.op.length > MOST_LAUNCHES:
        return f"it has more than {MOST_LAUNCHES} steps"
    operands = [*step.outs, *(b for b in step.ins if b is not None)]
    if not all(buffer.is_dense for buffer in operands):
        return "its operands have gaps"
    return ""


def _is_repeated(step: Instr) -> bool:
    return isinstance(step, OpInstr) and step.plan is not None and step.plan.algorithm == REPEATED


def _steps(body: Program) -> Iterator[OpInstr | Stack | Copy]:
    return (step for step in body.body if isinstance(step, (OpInstr, Stack, Copy)))


def steps_of(step: Instr) -> Iterator[Instr]:
    """An instruction, or those of all iterations if it is a scan that the device runs."""
    if not isinstance(step, OpInstr) or not _is_repeated(step):
        yield step
        return
    assert isinstance(step.op, Scan)
    for result, first in zip(step.outs, step.ins[: step.op.carried], strict=False):
        assert first is not None
        yield Copy(result, first, step.origins)
    (body,) = step.bodies
    order = range(step.op.length)
    for iteration in reversed(order) if step.op.reverse else order:
        change = _Places(step, step.op, body, iteration)
        yield from (change.step(inner) for inner in _steps(body))


class _Places:
    """Where the buffers of a body lie in one iteration."""

    def __init__(self, step: OpInstr, op: Scan, body: Program, iteration: int) -> None:
        self.arena = step.scratch[0] if step.scratch else None
        self.roots: dict[Buffer, Buffer] = dict(zip(body.states, step.outs, strict=False))
        self.made: dict[Buffer, Buffer] = {}
        for number, own in enumerate(body.inputs):
            given = step.operand(op.carried + number)
            self.roots[own] = _part(given, iteration) if number < op.scanned else given
        for own, result in zip(body.outputs, step.outs[op.carried :], strict=True):
            self.roots[own] = _part(result, iteration)

    def step(self, step: OpInstr | Stack | Copy) -> OpInstr | Stack | Copy:
        """The same on the buffers of the program around it."""
        match step:
            case Copy(dest, src, origins):
                return Copy(self.buffer(dest), self.buffer(src), origins)
            case Stack():
                return replace(step, body=tuple(map(self._computation, step.body)))
            case OpInstr():
                return self._computation(step)

    def _computation(self, step: OpInstr) -> OpInstr:
        ins = tuple(None if each is None else self.buffer(each) for each in step.ins)
        return replace(step, outs=tuple(map(self.buffer, step.outs)), ins=ins, predicate=None)

    def buffer(self, buffer: Buffer) -> Buffer:
        """Where a buffer lies: one for all its uses."""
        if buffer not in self.made:
            self.made[buffer] = self._placed(buffer)
        return self.made[buffer]

    def _placed(self, buffer: Buffer) -> Buffer:
        root = buffer.root
        if root.region in (Region.CONSTANT, Region.LOCAL):
            return buffer
        if root.region is Region.ARENA:
            return self._in_workspace(buffer)
        return _within(buffer, self.roots[root])

    def _in_workspace(self, buffer: Buffer) -> Buffer:
        """A buffer of the body's own memory."""
        if buffer.base is not None:
            return buffer.placed_in(self.buffer(buffer.root))
        assert self.arena is not None
        assert self.arena.address is not None
        assert buffer.address is not None
        made = Buffer(buffer.name, buffer.type, Region.ARENA)
        made.address = self.arena.address + buffer.address
        return made


def _within(buffer: Buffer, place: Buffer) -> Buffer:
    """A view of what lies at a place."""
    size, room = buffer.type.dtype.itemsize, place.type.dtype.itemsize
    start = buffer.start + place.start * room // size
    return Buffer(
        buffer.name,
        buffer.type,
        place.root.region,
        base=place.root,
        start=start,
        strides=buffer.strides,
    )


def _part(buffer: Buffer, number: int) -> Buffer:
    """The part of a buffer with a number along the first axis."""
    return Buffer(
        buffer.name,
        buffer.type.with_shape(buffer.type.shape[1:]),
        buffer.root.region,
        base=buffer.root,
        start=buffer.start + number * buffer.strides[0],
        strides=buffer.strides[1:],
    )
