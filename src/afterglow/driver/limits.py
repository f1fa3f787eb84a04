"""The limit of memory for a run, checked before any is allocated."""

from __future__ import annotations

from afterglow.instr import Buffer, OpInstr, Program, Stack
from afterglow.runtime import CompiledFunction
from afterglow.runtime.native.machine import usable_memory
from afterglow.support.errors import MemoryLimitError


def check_run(function: CompiledFunction, program: Program, max_memory: int | None) -> None:
    """Raise if arena, outputs, and the memory of kernels take more than a run may."""
    limit = usable_memory() if max_memory is None else max_memory
    memory, outputs = function.memory, sum(p.type.nbytes for p in function.interface.outputs)
    total = memory.arena_bytes + memory.thread_bytes + outputs
    if total <= limit:
        return
    raise MemoryLimitError(
        f"a run takes {total:,} bytes of memory, the limit is {limit:,}: "
        f"{memory.arena_bytes:,} for intermediate results, {outputs:,} for outputs, "
        f"{memory.thread_bytes:,} for kernels",
        where=_largest(program),
        help="allow more with max_memory, or --max-memory; max_arena computes in parts",
    )


def _largest(program: Program) -> str:
    """The largest buffer, and the node that makes it."""
    made: dict[Buffer, str] = {}
    for step in program.body:
        for each in step.body if isinstance(step, Stack) else (step,):
            if isinstance(each, OpInstr):
                made.update((out.root, each.origin) for out in each.outs)
    if not made:
        return ""
    largest = max(made, key=lambda buffer: buffer.type.nbytes)
    return f"the largest tensor is {largest.type}, of node {made[largest]!r}"
