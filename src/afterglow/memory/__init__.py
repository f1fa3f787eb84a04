"""Memory of a program: lifetimes, copies, sharing, and where each buffer lies."""

from afterglow.memory.copies import remove_copies
from afterglow.memory.lifetimes import place_lifetimes
from afterglow.memory.planner import MemoryPlan, plan_memory

__all__ = ["MemoryPlan", "place_lifetimes", "plan_memory", "remove_copies"]
