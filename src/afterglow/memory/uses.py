"""Who touches each whole buffer of a program, and when."""

from __future__ import annotations

from afterglow.instr import Alloc, Buffer, Dealloc, DeclareView, Instr, Program


class Uses:
    """Positions, in the body of a program, of the instructions that read or write a buffer."""

    def __init__(self, program: Program) -> None:
        self.steps = program.body
        self.position: dict[Instr, int] = {}
        self.readers: dict[Buffer, list[int]] = {}
        self.writers: dict[Buffer, list[int]] = {}
        for index, step in enumerate(self.steps):
            self.position[step] = index
            if isinstance(step, (Alloc, Dealloc, DeclareView)):
                continue
            for access, buffer in step.accesses():
                if access.reads:
                    _note(self.readers, buffer.root, index)
                if access.writes:
                    _note(self.writers, buffer.root, index)

    def touching(self, root: Buffer) -> list[int]:
        """Every position at which a whole buffer is read or written, in order."""
        return sorted({*self.readers.get(root, ()), *self.writers.get(root, ())})

    def move(self, root: Buffer, place: Buffer) -> None:
        """Note that a whole buffer lies in another one from now on."""
        for table in (self.readers, self.writers):
            moved = table.pop(root, [])
            table[place] = sorted({*table.get(place, ()), *moved})


def _note(table: dict[Buffer, list[int]], root: Buffer, index: int) -> None:
    positions = table.setdefault(root, [])
    if not positions or positions[-1] != index:
        positions.append(index)
