"""The backend: which steps the chip computes, and how; the host runs the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from ember_chip.isa import DMA_BYTES, MOST_AXES
from ember_chip.machine import Machine

from afterglow.backends import blocks
from afterglow.instr import ON_HOST, Copy, Instr, KernelPlan, OpInstr, Program, Stack, ops_of
from afterglow.ops.movement import Expand, Transpose
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.device import DeviceInfo
from afterglow.types import Array
from afterglow.types.dtype import f32, i32, string
from ember_backend.assembly import assemble, disassemble
from ember_backend.emitter import Emitter, Job
from ember_backend.products import Product
from ember_backend.vector import REDUCED, Pointwise, Source, broadcast, move, reduce

PASSES = {"host": 6, "bf16": 1}
"""The passes of the array for products of f32, by target."""


@dataclass(frozen=True)
class Ember:
    """Code for the chip.

    Its target has one memory: operands need not fit the scratchpad, because kernels tile them.
    """

    target: blocks.NamedTarget
    unchecked: bool
    name: str = "ember"
    device: str = "ember"
    preparation: tuple[Any, ...] = ()
    languages: tuple[str, ...] = ("ember",)

    def plans(self, step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        """The unit that computes a step; the host, if it is one op that no unit can compute."""
        members = ops_of(step)
        buffers = [b for member in members for b in (*member.outs, *member.ins) if b is not None]
        cost = float(sum(b.type.size for b in buffers))
        is_empty = not all(b.type.size for b in buffers)
        if not is_empty and Product.takes(members[0]):
            made = Product(None, members, 6 if exact else PASSES[self.target.name])
            if made.is_fused and made.cycles < inf:
                settings = {"tile": made.tile, "passes": made.passes}
                return (KernelPlan("array", settings, made.cycles),)
        if not is_empty and (_pointwise(None, members) or _is_moved(step) or _is_reduced(step)):
            return (KernelPlan("vector", cost=cost),)
        has_text = any(b.type.dtype is string for b in buffers)
        if isinstance(step, Stack) or (step.op.decomposes() and not has_text):
            return ()
        return (KernelPlan(ON_HOST, cost=100 * cost),)

    def generate(self, program: Program) -> tuple[Emitter, dict[int, str]]:
        """The code of a program, and what its steps are."""
        e, comments = Emitter(blocks.Blocks(program)), dict[int, str]()
        for index, step in enumerate(program.body):
            if not isinstance(step, (OpInstr, Stack, Copy)):
                continue
            ops = ", ".join(op.op.mnemonic for op in ops_of(step)) or "copy"
            origins = ", ".join(dict.fromkeys(op.origin for op in ops_of(step)))
            comments[index] = f"{ops} ({origins})"
            e.emit("mark", step=index)
            if blocks.runs_on_host(step):
                e.emit("host", step=index)
                e.waited = e.queued
            else:
                e.overlap(_jobs(e, step))
        return e, comments

    def compile(self, program: Program) -> Artifact:
        """Assembly, constants, and what the host runs."""
        e, _ = self.generate(program)
        sections = {"code": disassemble(e.code).encode()}
        return e.blocks.artifact(self.device, sections, unchecked=self.unchecked)

    def listing(self, program: Program, language: str) -> str:
        """The assembly, with the names of nodes."""
        e, comments = self.generate(program)
        return disassemble(e.code, comments)

    def host_steps(self, program: Program) -> Sequence[tuple[Instr, str]]:
        """What the host runs."""
        why = "the chip has no instruction for it"
        return [(step, why) for step in program.body if blocks.runs_on_host(step)]


def _jobs(e: Emitter, step: Any) -> Iterator[Job]:
    """The tiles of a step, as it is planned."""
    if isinstance(step, Copy):
        return move(e, step.dest, Source(step.src, step.src.strides))
    if step.plan.algorithm == "array":
        return Product(e, ops_of(step), step.plan.settings["passes"]).jobs()
    if _is_reduced(step):
        return reduce(e, step)
    if not _is_moved(step):
        return _pointwise(e, ops_of(step)).jobs()
    x, out, op = step.operand(0), step.outs[0], step.op
    if isinstance(op, Transpose):
        return move(e, out, Source(x, tuple(x.strides[axis] for axis in op.perm)))
    return move(e, out, broadcast(x, out.type.rank))


def _pointwise(e: Emitter | None, members: Sequence[OpInstr]) -> Pointwise | None:
    """Steps that are all element-wise, on tiles of one shape."""
    work = Pointwise(e, members[0].outs[0].type.shape)
    return work if all(work.add(step) for step in members) else None


def _is_moved(step: OpInstr | Stack) -> bool:
    if not isinstance(step, OpInstr) or not isinstance(step.op, (Transpose, Expand)):
        return False
    return step.outs[0].type.dtype is not string and step.outs[0].type.dtype.itemsize <= 8


def _is_reduced(step: OpInstr | Stack) -> bool:
    if not isinstance(step, OpInstr) or step.op.mnemonic not in REDUCED:
        return False
    x = step.operand(0).type
    return x.dtype in (f32, i32) and 0 < x.rank <= MOST_AXES


class EmberExecutable(blocks.BlockExecutable):
    """A program in the memory of the simulated chip."""

    def __init__(self, artifact: Artifact) -> None:
        super().__init__(artifact)
        self.code = assemble(bytes(artifact.sections["code"]).decode())

    def execute(self, memory: Mapping[str, Array], on_host: Callable[[int], None]) -> None:
        """Let a chip run, whose base registers point to the blocks."""
        Machine(memory, on_host).run(self.code)


FACTORY = blocks.NamedTargets(
    "ember",
    {
        "host": "products of f32 in six passes, to 2**-23",
        "bf16": "products of f32 rounded to bf16, to 2**-8",
    },
    lambda s: Ember(blocks.NamedTarget(s.target), s.policy.unchecked),
)
DEVICE = blocks.BlockDevice(
    DeviceInfo("ember", "simulated chip at 1 GHz", 1 << 30, DMA_BYTES * 1e9, 512e9 / 6, inf),
    EmberExecutable,
)
