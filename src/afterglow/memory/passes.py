"""What is done to the memory of a program, as passes: see `driver/pipelines.py` for their order.

Each leaves a valid program, in which buffers are allocated at their first use and freed at their
last.
"""

from __future__ import annotations

from afterglow.instr import Program
from afterglow.memory.aliasing import alias_memory, donate_inputs
from afterglow.memory.copies import remove_copies
from afterglow.memory.dead_stores import drop_dead_stores
from afterglow.memory.halos import add_halos
from afterglow.memory.kernel_plans import PlanStep, plan_kernels
from afterglow.memory.lifetimes import place_lifetimes
from afterglow.memory.memories import Memories
from afterglow.memory.planner import EXACT_STEPS, plan_memory
from afterglow.memory.sharing import share_buffers
from afterglow.memory.side_by_side import put_side_by_side
from afterglow.memory.stacking import form_stacks
from afterglow.memory.staging import plan_memories
from afterglow.memory.updates import update_in_place
from afterglow.memory.weight_budget import fit_weights
from afterglow.memory.workspace import AlternativePlans, reduce_workspace
from afterglow.passes import ProgramPass, Property


class MemoryPass(ProgramPass):
    """A pass after which lifetimes are marked anew."""

    def run(self, program: Program) -> bool:
        """Change the program, and mark its lifetimes."""
        changed = self.change(program)
        place_lifetimes(program)
        return changed

    def change(self, program: Program) -> bool:
        """Transform the program; say whether anything changed."""
        raise NotImplementedError


class RemoveCopies(MemoryPass):
    """Reads or writes in place what would have been copied."""

    name = "remove-copies"
    provides = frozenset({Property.COPIES_REMOVED})

    def change(self, program: Program) -> bool:
        """See the class."""
        return bool(remove_copies(program))


class DropDeadStores(MemoryPass):
    """Drops what nobody reads."""

    name = "drop-dead-stores"
    requires = frozenset({Property.COPIES_REMOVED})

    def change(self, program: Program) -> bool:
        """See the class."""
        return bool(drop_dead_stores(program))


class AddHalos(MemoryPass):
    """Replaces padding by a halo in memory, where the plan of a kernel wants one."""

    name = "add-halos"

    def __init__(self, plan: PlanStep) -> None:
        self.plan = plan

    def change(self, program: Program) -> bool:
        """See the class."""
        return bool(add_halos(program, self.plan))


class FormStacks(MemoryPass):
    """Joins instructions into stacks for which the backend plans one kernel."""

    name = "form-stacks"
    requires = frozenset({Property.COPIES_REMOVED})
    provides = frozenset({Property.STACKED})

    def __init__(self, plan: PlanStep) -> None:
        self.plan = plan

    def change(self, program: Program) -> bool:
        """See the class."""
        return bool(form_stacks(program, self.plan))


class UpdateInPlace(MemoryPass):
    """Computes new values of state where the old ones lie."""

    name = "update-in-place"
    requires = frozenset({Property.STACKED})

    def change(self, program: Program) -> bool:
        """See the class."""
        return bool(update_in_place(program))


class PlanKernels(MemoryPass):
    """Gives every step the backend's plan of its kernel, and scratch operands for its workspace."""

    name = "plan-kernels"
    provides = frozenset({Property.KERNELS_PLANNED})

    def __init__(self, plan: PlanStep) -> None:
        self.plan = plan

    def change(self, program: Program) -> bool:
        """See the class."""
        plan_kernels(program, self.plan)
        return True


class FitWeights(MemoryPass):
    """Takes kernels with smaller packed weights where all of them exceed a budget."""

    name = "fit-weights"
    requires = frozenset({Property.KERNELS_PLANNED})

    def __init__(self, alternatives: AlternativePlans, most: float) -> None:
        self.alternatives = alternatives
        self.most = most

    def change(self, program: Program) -> bool:
        """See the class."""
        return bool(fit_weights(program, self.alternatives, self.most))


class DonateInputs(MemoryPass):
    """Marks inputs as memory that may be overwritten once they have been read."""

    name = "donate-inputs"

    def change(self, program: Program) -> bool:
        """See the class."""
        donate_inputs(program)
        return True


class ShareBuffers(MemoryPass):
    """Lets results take over the memory of operands that die."""

    name = "share-buffers"
    requires = frozenset({Property.KERNELS_PLANNED})
    provides = frozenset({Property.SHARED})

    def change(self, program: Program) -> bool:
        """See the class."""
        return bool(share_buffers(program))


class AliasOutputs(MemoryPass):
    """Lets buffers lie in outputs that are not written yet, and in inputs that are donated."""

    name = "alias-outputs"
    requires = frozenset({Property.SHARED})

    def change(self, program: Program) -> bool:
        """See the class."""
        return bool(alias_memory(program))


class ReduceWorkspace(MemoryPass):
    """Takes kernels with less workspace where the peak is, if they cost little more."""

    name = "reduce-workspace"
    requires = frozenset({Property.SHARED})

    def __init__(self, alternatives: AlternativePlans) -> None:
        self.alternatives = alternatives

    def change(self, program: Program) -> bool:
        """See the class."""
        return bool(reduce_workspace(program, self.alternatives))


class PutSideBySide(ProgramPass):
    """Groups instructions that a device may run at the same time, and keeps their memory apart."""

    name = "put-side-by-side"
    requires = frozenset({Property.SHARED})

    def run(self, program: Program) -> bool:
        """See the class."""
        return bool(put_side_by_side(program))


class PlanMemories(ProgramPass):
    """Plans a small fast memory and a large slow one: what lies where, and transfers in time."""

    name = "plan-memories"
    requires = frozenset({Property.KERNELS_PLANNED})

    def __init__(self, memories: Memories) -> None:
        self.memories = memories

    def run(self, program: Program) -> bool:
        """See the class."""
        plan_memories(program, self.memories)
        return True


class PlanMemory(ProgramPass):
    """Gives every buffer its address in the arena; searches for the best plan for some steps."""

    name = "plan-memory"
    requires = frozenset({Property.KERNELS_PLANNED})

    def __init__(self, search_steps: int = EXACT_STEPS) -> None:
        self.search_steps = search_steps

    def run(self, program: Program) -> bool:
        """See the class."""
        plan_memory(program, exact=self.search_steps)
        return True
