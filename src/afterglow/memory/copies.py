"""Remove copies: read the source where it lies, or produce it where it must end up."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from afterglow.instr import Alloc, Buffer, Copy, Dealloc, DeclareView, Instr, Program, Region
from afterglow.instr.overlap import overlap, placed_inside


def remove_copies(program: Program) -> int:
    """Remove every copy that a view can stand for; say how many went. Lifetimes come after."""
    remover = _CopyRemover(program)
    copies = [step for step in program.body if isinstance(step, Copy)]
    removed = {step for step in copies if remover.read_in_place(step)}
    removed |= {step for step in copies if step not in removed and remover.write_in_place(step)}
    program.body = [step for step in program.body if step not in removed]
    return len(removed)


class _CopyRemover:
    """Knows which instructions touch each whole buffer, in order."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.touching: dict[Buffer, list[int]] = {}
        self.steps: list[Instr] = program.body
        self.position: dict[Instr, int] = {}
        for index, step in enumerate(self.steps):
            self.position[step] = index
            if isinstance(step, (Alloc, Dealloc, DeclareView)):
                continue
            for root in {buffer.root for _, buffer in step.accesses()}:
                self.touching.setdefault(root, []).append(index)

    def read_in_place(self, copy: Copy) -> bool:
        """copy out whole %d, in %s; … in %d …  ->  … in view of %s …."""
        dest, here = copy.dest.root, self.position[copy]
        others = [index for index in self.touching[dest] if index != here]
        if dest.region is not Region.ARENA or not copy.dest.covers_root:
            return False
        if any(index < here or self._writes(index, dest) for index in others):
            return False
        if copy.src.root is dest or self._written_between(
            copy.src, here, max(others, default=here)
        ):
            return False
        return self._move(copy, dest, copy.src, others)

    def write_in_place(self, copy: Copy) -> bool:
        """… out %s …; copy out %d, in whole %s  ->  … out view of %d …."""
        source, here = copy.src.root, self.position[copy]
        others = [index for index in self.touching[source] if index != here]
        if source.region is not Region.ARENA or not copy.src.covers_root or not others:
            return False
        if copy.dest.root is source or any(
            index > here and self._writes(index, source) for index in others
        ):
            return False
        first, last = min(others), max(*others, here)
        for index in self.touching[copy.dest.root]:
            between = first <= index <= last and index != here
            if between and self._touches(index, copy.dest):
                return False
        return self._move(copy, source, copy.dest, others)

    def _writes(self, index: int, root: Buffer) -> bool:
        return any(a.writes and b.root is root for a, b in self.steps[index].accesses())

    def _touches(self, index: int, view: Buffer) -> bool:
        return any(overlap(buffer, view) for _, buffer in self.steps[index].accesses())

    def _written_between(self, view: Buffer, first: int, last: int) -> bool:
        return any(
            first < index <= last and self._writes(index, view.root)
            for index in self.touching[view.root]
        )

    def _move(self, copy: Copy, old: Buffer, place: Buffer, where: Iterable[int]) -> bool:
        """Let everything that used `old`, or views of it, use `place` instead, if it can."""
        whole = copy.dest if old is copy.dest.root else copy.src
        if not place.is_dense and whole.type != old.type:
            return False
        moved: dict[Buffer, Buffer] = {}
        where = list(where)
        for index in where:
            for _, buffer in self.steps[index].accesses():
                if buffer.root is not old or buffer in moved:
                    continue
                layout = placed_inside(buffer, place)
                if layout is None:
                    return False
                moved[buffer] = _view(buffer, place.root, *layout)
        for index in where:
            self.steps[index].substitute(lambda buffer: moved.get(buffer, buffer))
            if index not in self.touching[place.root]:
                insort(self.touching[place.root], index)
        self.touching[old] = []
        return True


def _view(buffer: Buffer, root: Buffer, start: int, strides: tuple[int, ...]) -> Buffer:
    """The same name and type at another place; the whole of its root is the root itself."""
    view = Buffer(buffer.name, buffer.type, root.region, base=root, start=start, strides=strides)
    return root if view.covers_root and view.type == root.type else view
