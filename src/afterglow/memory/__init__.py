"""Memory of a program: lifetimes, copies, sharing, and where each buffer lies."""

from afterglow.memory.aliasing import alias_memory, donate_inputs
from afterglow.memory.copies import remove_copies
from afterglow.memory.dead_stores import drop_dead_stores
from afterglow.memory.halos import add_halos
from afterglow.memory.kernel_plans import PlanStep, by_definition, plan_kernels
from afterglow.memory.lifetimes import place_lifetimes
from afterglow.memory.memories import MAIN_MEMORY, Memories, MemorySpace
from afterglow.memory.planner import plan_memory
from afterglow.memory.sharing import share_buffers
from afterglow.memory.side_by_side import MOST_BESIDE, put_side_by_side
from afterglow.memory.stacking import form_stacks
from afterglow.memory.staging import MemoriesPlan, plan_memories
from afterglow.memory.updates import update_in_place
from afterglow.memory.weight_budget import fit_weights
from afterglow.memory.workspace import AlternativePlans, reduce_workspace

__all__ = [
    "MAIN_MEMORY",
    "MOST_BESIDE",
    "AlternativePlans",
    "Memories",
    "MemoriesPlan",
    "MemorySpace",
    "PlanStep",
    "add_halos",
    "alias_memory",
    "by_definition",
    "donate_inputs",
    "drop_dead_stores",
    "fit_weights",
    "form_stacks",
    "place_lifetimes",
    "plan_kernels",
    "plan_memories",
    "plan_memory",
    "put_side_by_side",
    "reduce_workspace",
    "remove_copies",
    "share_buffers",
    "update_in_place",
]
