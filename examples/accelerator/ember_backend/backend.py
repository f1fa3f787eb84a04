"""The backend: which steps the chip computes, and how; the host runs the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from ember_chip.isa import FLOPS, MOST_AXES, RATES
from ember_chip.machine import Machine

from afterglow.backends import blocks
from afterglow.instr import Copy, KernelPlan, OpInstr, Program, Stack, ops_of
from afterglow.memory.timeline import origin_of, work_of
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.device import DeviceInfo
from afterglow.transforms.widen_floats import WidenFloats
from afterglow.types import Array
from afterglow.types.dtype import f32, i32
from ember_backend.assembly import assemble, disassemble
from ember_backend.emitter import Emitter, Job
from ember_backend.products import Product
from ember_backend.vector import REDUCED, Pointwise, move, reduce

TARGETS = {
    "host": (6, "products of f32 in six passes, to 2**-23"),
    "bf16": (1, "products of f32 rounded to bf16, to 2**-8"),
}
"""The passes of the array for products of f32, by target."""


class Ember(blocks.BlockBackend):
    """Code for the chip.

    Its target has one memory: operands need not fit the scratchpad, because kernels tile them.
    """

    name = "ember"
    languages = ("ember",)
    preparation = (WidenFloats(),)  # the vector unit has no numbers of 16 bits

    def plans(self, step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        """The unit that computes a step; the host, if it is one op that no unit can compute."""
        members = ops_of(step)
        buffers = [b for member in members for b in (*member.outs, *member.ins) if b is not None]
        if not all(b.type.size for b in buffers):
            return blocks.lowered_or_hosted(step)
        if Product.takes(members[0]):
            made = Product(None, members, 6 if exact else TARGETS[self.settings.target][0])
            if made.is_fused and made.cycles < inf:
                settings = {"tile": made.tile, "passes": made.passes}
                return (KernelPlan("array", settings, made.cycles * FLOPS),)
        if _pointwise(None, members) or blocks.as_copy(step) or _is_reduced(step):
            return (KernelPlan("vector", cost=FLOPS / 32 * sum(b.type.size for b in buffers)),)
        return blocks.lowered_or_hosted(step)

    def sections(self, memory: blocks.Blocks) -> dict[str, bytes]:
        """The assembly of a program; comments have the ops and nodes of each step."""
        e, comments = Emitter(memory), dict[int, str]()
        for index, step in enumerate(memory.program.body):
            if not isinstance(step, (OpInstr, Stack, Copy)):
                continue
            comments[index] = f"{work_of(step)} ({origin_of(step)})"
            e.emit("mark", step=index)
            if blocks.runs_on_host(step):
                e.emit("host", step=index)
                e.waited = e.queued
            else:
                e.overlap(_jobs(e, step))
        return {"code": disassemble(e.code, comments).encode()}

    def listing(self, program: Program, language: str) -> str:
        """The assembly."""
        return self.sections(blocks.Blocks(program))["code"].decode()


def _jobs(e: Emitter, step: Any) -> Iterator[Job]:
    """The tiles of a step, as it is planned."""
    copy = blocks.as_copy(step)
    if copy is not None:
        return move(e, copy)
    if step.plan.algorithm == "array":
        return Product(e, ops_of(step), step.plan.settings["passes"]).jobs()
    return reduce(e, step) if _is_reduced(step) else _pointwise(e, ops_of(step)).jobs()


def _pointwise(e: Emitter | None, members: Sequence[OpInstr]) -> Pointwise | None:
    """Steps that are all element-wise, on tiles of one shape."""
    work = Pointwise(e, members[0].outs[0].type.shape)
    return work if all(work.add(step) for step in members) else None


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


_INFO = DeviceInfo("ember", "simulated chip at 1 GHz", 1 << 30, *RATES, inf, is_simulated=True)
DEVICE = blocks.BlockDevice(_INFO, EmberExecutable)
FACTORY = blocks.NamedTargets("ember", {name: why for name, (_, why) in TARGETS.items()}, Ember)
