"""Which products must be formed as they are defined, for what follows magnifies small results.

Algorithms that save multiplications make errors that are small beside the largest results, also
where a result is nearly zero. That is harmless in most networks, but not before a logarithm: of
silent parts of a sound, which are exactly zero, it would show nothing but errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cpu.job import Job
from afterglow.instr import Buffer, OpInstr
from afterglow.ops.elementwise import Div
from afterglow.ops.functions import Log, Reciprocal, Sqrt
from afterglow.ops.movement import Transpose


def magnified(jobs: Sequence[Job]) -> frozenset[str]:
    """The keys of the jobs, given in the order of a program, whose small results matter."""
    keys = set()
    wanted: set[Buffer] = set()
    for job in reversed(jobs):
        for step in reversed(job.steps):
            small = _magnifies(step)
            if small is not None:
                wanted.add(small.root)
            if wanted.isdisjoint(result.root for result in step.outs):
                continue
            if step.op.elementwise or isinstance(step.op, Transpose):
                wanted.update(operand.root for operand in step.ins if operand is not None)
            else:
                keys.add(job.key)
    return frozenset(keys)


def _magnifies(step: OpInstr) -> Buffer | None:
    """The operand whose small values a step makes large, or moves far."""
    match step.op:
        case Log() | Sqrt() | Reciprocal():
            return step.ins[0]
        case Div():
            return step.ins[1]
    return None
