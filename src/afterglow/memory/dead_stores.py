"""Drop instructions whose results nobody reads."""

from __future__ import annotations

from afterglow.instr import Buffer, Copy, Instr, OpInstr, Program, Region


def drop_dead_stores(program: Program) -> int:
    """Drop what writes only memory of the arena that is not read afterwards; say how many went."""
    live: set[Buffer] = set()
    kept: list[Instr] = []
    for step in reversed(program.body):
        if isinstance(step, (OpInstr, Copy)) and not _is_needed(step, live):
            continue
        live.update(buffer.root for access, buffer in step.accesses() if access.reads)
        kept.append(step)
    dropped = len(program.body) - len(kept)
    program.body = kept[::-1]
    return dropped


def _is_needed(step: OpInstr | Copy, live: set[Buffer]) -> bool:
    if isinstance(step, OpInstr) and not step.op.pure:
        return True
    written = [buffer.root for access, buffer in step.accesses() if access.writes]
    return any(root.region is not Region.ARENA or root in live for root in written)
