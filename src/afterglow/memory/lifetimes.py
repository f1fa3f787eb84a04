"""Make lifetimes as short as they can be: allocate at the first use, free at the last."""

from __future__ import annotations

from collections.abc import Iterator

from afterglow.instr import Alloc, Buffer, Dealloc, DeclareView, Instr, Program, Region


def place_lifetimes(program: Program) -> None:
    """Put every `Alloc`, `Dealloc` and view declaration where it belongs; drop unused ones."""
    work = working_steps(program)
    last = {root: index for index, step in enumerate(work) for root in _roots(step)}
    ending: dict[int, list[Buffer]] = {}
    for root, index in last.items():
        ending.setdefault(index, []).append(root)
    body: list[Instr] = []
    seen: set[Buffer] = set()
    for index, step in enumerate(work):
        for buffer in _named(step):
            root = buffer.root
            if root.region is Region.ARENA and root not in seen:
                body.append(Alloc(root))
                seen.add(root)
            if buffer.is_view and buffer not in seen:
                body.append(DeclareView(buffer))
                seen.add(buffer)
        body.append(step)
        body.extend(Dealloc(root) for root in ending.get(index, ()))
    program.body = body


def working_steps(program: Program) -> list[Instr]:
    """The instructions without those that `place_lifetimes` puts there."""
    return [step for step in program.body if not _is_mark(step)]


def _is_mark(step: Instr) -> bool:
    """Whether a step only says what can be seen without it; the end of a loan cannot."""
    match step:
        case Dealloc(buffer):
            return not buffer.is_view
    return isinstance(step, (Alloc, DeclareView))


def _named(step: Instr) -> list[Buffer]:
    match step:
        case Dealloc(buffer):
            return [buffer]
    return [buffer for _, buffer in step.accesses()]


def _roots(step: Instr) -> Iterator[Buffer]:
    for _, buffer in step.accesses():
        if buffer.root.region is Region.ARENA:
            yield buffer.root
