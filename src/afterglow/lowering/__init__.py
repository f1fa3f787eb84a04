"""From the graph IR to the instruction IR: lower, schedule, select."""

from afterglow.lowering.lower_ops import HasKernel, LowerOps, unsupported_nodes
from afterglow.lowering.schedule import Schedule, peak_bytes
from afterglow.lowering.select import select_instructions, step_of

__all__ = [
    "HasKernel",
    "LowerOps",
    "Schedule",
    "peak_bytes",
    "select_instructions",
    "step_of",
    "unsupported_nodes",
]
