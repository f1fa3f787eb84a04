"""Make lifetimes as short as they can be: allocate at the first use, free at the last."""

from __future__ import annotations

from collections.abc import Iterator

from afterglow.instr import Alloc, Buffer, Dealloc, DeclareView, Instr, Program, Region


def place_lifetimes(program: Program) -> None:
    """Put every `Alloc`, `Dealloc` and view declaration where it belongs; drop unused ones."""
    work = [s for s in program.body if not isinstance(s, (Alloc, Dealloc, DeclareView))]
    last = {root: index for index, step in enumerate(work) for root in _roots(step)}
    ending: dict[int, list[Buffer]] = {}
    for root, index in last.items():
        ending.setdefault(index, []).append(root)
    body: list[Instr] = []
    seen: set[Buffer] = set()
    for index, step in enumerate(work):
        for _, buffer in step.accesses():
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


def _roots(step: Instr) -> Iterator[Buffer]:
    for _, buffer in step.accesses():
        if buffer.root.region is Region.ARENA:
            yield buffer.root
