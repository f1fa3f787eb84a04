"""From the graph IR to the instruction IR: lower, schedule, select."""

from afterglow.lowering.lower_ops import LowerOps, unsupported_nodes
from afterglow.lowering.schedule import Schedule, peak_bytes
from afterglow.lowering.select import select_instructions

__all__ = ["LowerOps", "Schedule", "peak_bytes", "select_instructions", "unsupported_nodes"]
