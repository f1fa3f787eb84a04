"""Form stacks: instructions that run as one kernel, so that what is between them needs no memory.

An instruction joins what it reads if

- what it reads there is a whole buffer, written once, of the arena;
- the ops allow it: see `instr/stack_rules.py`;
- every member can then still run tile by tile together with the others;
- nobody outside reads the stack's results in between, nor writes what it reads, so that all of it
  can run where the instruction is;
- the backend plans a kernel for all of it that costs no more than those of its parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from afterglow.instr import Instr, KernelPlan, OpInstr, Program, Region, Stack
from afterglow.instr.overlap import overlap
from afterglow.instr.stack_rules import StackGroup, may_join
from afterglow.instr.tiling import tile_axes
from afterglow.memory.kernel_plans import PlanStep, by_definition
from afterglow.memory.uses import Uses
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True, eq=False)
class _Candidate(StackGroup):
    """A stack in the making; it will run at the position of its last member."""

    position: int
    plan: KernelPlan | None = None


def form_stacks(program: Program, plan: PlanStep = by_definition) -> int:
    """Group the instructions of a program into stacks; say how many stacks there are."""
    return _Former(program, plan).run()


class _Former:
    """Goes through a program in order and lets each instruction join what it reads."""

    def __init__(self, program: Program, plan: PlanStep) -> None:
        self.program = program
        self.plan = plan
        self.uses = Uses(program)
        self.group_of: dict[OpInstr, _Candidate] = {}

    def run(self) -> int:
        for index, step in enumerate(self.program.body):
            if isinstance(step, OpInstr):
                self._visit(step, index)
        groups = dict.fromkeys(self.group_of.values())
        stacks = {g.position: self._stack(g) for g in groups if len(g.members) > 1}
        stacked = {step for stack in stacks.values() for step in stack.body}
        body: list[Instr] = []
        for index, step in enumerate(self.program.body):
            if index in stacks:
                body.append(stacks[index])
            elif step not in stacked:
                body.append(step)
        self.program.body = body
        return len(stacks)

    def _visit(self, step: OpInstr, index: int) -> None:
        group = _Candidate((step,), index, self.plan(step))
        self.group_of[step] = group
        for producer in self._producers(step):
            joined = self._joined(producer, group)
            if joined is not None:
                group = joined
                self.group_of.update((member, group) for member in group.members)

    def _producers(self, step: OpInstr) -> Iterable[_Candidate]:
        """The groups that made what a step reads: those without an anchor, the latest first.

        They join a step, but could not join it once it has joined an anchor.
        """
        found: dict[_Candidate, None] = {}
        for buffer in step.ins:
            writers = [] if buffer is None else self.uses.writers.get(buffer.root, [])
            if len(writers) == 1:
                writer = self.program.body[writers[0]]
                if isinstance(writer, OpInstr) and writer in self.group_of and writer is not step:
                    found[self.group_of[writer]] = None
        return sorted(found, key=lambda group: (group.anchor is not None, -group.position))

    def _joined(self, first: _Candidate, second: _Candidate) -> _Candidate | None:
        """Both groups as one, if they can be and it is worth it."""
        if first is second or not may_join(first, second):
            return None
        members = sorted({*first.members, *second.members}, key=self.uses.position.__getitem__)
        group = _Candidate(tuple(members), max(first.position, second.position))
        if not self._can_wait(first, group):
            return None
        stack = self._stack(group, tentative=True)
        plan = self.plan(stack) if tile_axes(stack) else None
        return replace(group, plan=plan) if _is_cheaper(plan, first.plan, second.plan) else None

    def _can_wait(self, first: _Candidate, joined: _Candidate) -> bool:
        """Whether `first` can run as late as the joined group: nobody outside needs it before."""
        members = {self.uses.position[step] for step in joined.members}
        return all(
            index in members or index > joined.position
            for buffer in first.results
            for index in self.uses.touching(buffer.root)
        ) and not any(self._is_overwritten(step, joined.position) for step in first.members)

    def _is_overwritten(self, step: OpInstr, position: int) -> bool:
        """Whether something that a step reads is written between it and a later position."""
        here = self.uses.position[step]
        for buffer in (b for access, b in step.accesses() if access.reads):
            for index in self.uses.writers.get(buffer.root, ()):
                written = (b for access, b in self.uses.steps[index].accesses() if access.writes)
                if here < index <= position and any(overlap(buffer, b) for b in written):
                    return True
        return False

    def _stack(self, group: _Candidate, *, tentative: bool = False) -> Stack:
        members = {self.uses.position[step] for step in group.members}
        hidden = [
            buffer
            for step in group.members
            for buffer in step.outs
            if buffer.region is Region.ARENA
            and not buffer.is_view
            and members.issuperset(self.uses.touching(buffer))
        ]
        if not tentative:
            for buffer in hidden:
                buffer.region = Region.LOCAL
        return Stack(group.members, tuple(hidden))


def _is_cheaper(
    joined: KernelPlan | None, first: KernelPlan | None, second: KernelPlan | None
) -> bool:
    """Whether there is one kernel for both parts that costs no more than theirs."""
    if joined is None or first is None or second is None:
        return False
    return joined.cost <= first.cost + second.cost
