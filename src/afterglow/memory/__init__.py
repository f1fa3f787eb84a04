"""Memory of a program: lifetimes, copies, sharing, and where each buffer lies."""

from afterglow.memory.borders import add_borders
from afterglow.memory.copies import remove_copies
from afterglow.memory.dead_stores import drop_dead_stores
from afterglow.memory.lifetimes import place_lifetimes
from afterglow.memory.planner import MemoryPlan, plan_memory
from afterglow.memory.sharing import share_buffers
from afterglow.memory.stacking import form_stacks

__all__ = [
    "MemoryPlan",
    "add_borders",
    "drop_dead_stores",
    "form_stacks",
    "place_lifetimes",
    "plan_memory",
    "remove_copies",
    "share_buffers",
]
