"""The work of one kernel: a step or a stack, divided into prologue, anchor and epilogue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from afterglow.instr import Buffer, Copy, OpInstr, Region, Stack
from afterglow.instr.tiling import is_anchor
from afterglow.ops.movement import Transpose
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import dims_of, walk_extents


@dataclass(frozen=True, eq=False)
class Job:
    """An anchor, with element-wise steps before and after it; or element-wise steps alone.

    Steps before the anchor compute an operand of its, steps after it work on its result. `locals`
    are the buffers between them, which have no memory; `scratch` is the workspace of the plan.
    """

    anchor: OpInstr | None
    before: tuple[OpInstr, ...] = ()
    after: tuple[OpInstr, ...] = ()
    locals: frozenset[Buffer] = frozenset()
    scratch: tuple[Buffer, ...] = ()

    @staticmethod
    def of(step: OpInstr | Stack | Copy) -> Job:
        """The job that a step of a program is."""
        match step:
            case Copy(dest, src):
                same = Transpose(tuple(range(dest.type.rank)))
                return Job(OpInstr(same, (dest,), (src,)))
            case OpInstr():
                scratch = step.scratch
                if is_anchor(step):
                    return Job(step, scratch=scratch)
                return Job(None, after=(step,), scratch=scratch)
            case Stack(body, hidden, scratch):
                return replace(_of_stack(body, frozenset(hidden)), scratch=scratch)

    @property
    def steps(self) -> tuple[OpInstr, ...]:
        """Every step, in an order in which they can run."""
        anchor = () if self.anchor is None else (self.anchor,)
        return (*self.before, *anchor, *self.after)

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers in memory that it reads or writes, each once."""
        return tuple(dict.fromkeys(b for b in self._operands() if b not in self.locals))

    @cached_property
    def key(self) -> str:
        """Key under which kernels are shared: jobs with equal keys need the same code."""
        numbers: dict[Buffer, int] = {}
        for buffer in self._operands():
            numbers.setdefault(buffer, len(numbers))
        steps = [
            f"{step.op!r} {[numbers[b] for b in step.outs]} "
            f"{[None if b is None else numbers[b] for b in step.ins]}"
            for step in self.steps
        ]
        shapes = [f"{b.type} {self._place(b)}" for b in numbers]
        return "\n".join([f"{len(self.before)}", *steps, *shapes, *self._ranges(numbers)])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compute."""
        return all(b.type.size == 0 for step in self.steps for b in step.outs)

    def _ranges(self, buffers: Iterable[Buffer]) -> list[str]:
        """The bounds of all dimensions: plans depend on them."""
        dims = dims_of(*walk_extents([(b.type.shape, b.strides) for b in buffers]))
        return [dim.with_bounds for dim in dims]

    def _operands(self) -> Iterator[Buffer]:
        for step in self.steps:
            yield from step.outs
            yield from (b for b in step.ins if b is not None)

    def _place(self, buffer: Buffer) -> str:
        if buffer in self.locals:
            return "local"
        return f"{'const ' if buffer.region is Region.CONSTANT else ''}{buffer.strides}"


def _of_stack(body: tuple[OpInstr, ...], hidden: frozenset[Buffer]) -> Job:
    anchor = next((step for step in body if is_anchor(step)), None)
    if anchor is None:
        return Job(None, after=body, locals=hidden)
    needed = {b for b in anchor.ins if b is not None}
    before: list[OpInstr] = []
    for step in reversed(body[: body.index(anchor)]):
        if needed.intersection(step.outs):
            before.insert(0, step)
            needed.update(b for b in step.ins if b is not None)
    after = tuple(step for step in body if step is not anchor and step not in before)
    return Job(anchor, tuple(before), after, hidden)
