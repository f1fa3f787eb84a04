"""Remove copies: read the source where it lies, or produce it where it must end up.

A transpose that keeps the last axis is a copy too, to or from a view whose axes are in another
order. Only ops that read and write such views as fast as others take them: `Op.takes_any_order`.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable
from itertools import pairwise

from afterglow.instr import (
    Alloc,
    Buffer,
    Copy,
    Dealloc,
    DeclareView,
    Instr,
    OpInstr,
    Program,
    Region,
    origins_of,
)
from afterglow.instr.overlap import overlap, placed_inside
from afterglow.ops.movement import Transpose, taken
from afterglow.types import TensorType
from afterglow.types.extent import at_least


def remove_copies(program: Program) -> int:
    """Remove every copy that a view can stand for; say how many went. Lifetimes come after."""
    remover = _CopyRemover(program)
    copies = [step for step in program.body if isinstance(step, Copy)]
    copies_and_turns = [*copies, *(step for step in program.body if _keeps_rows(step))]
    removed = {step for step in copies_and_turns if remover.read_in_place(step)}
    left = [step for step in copies_and_turns if step not in removed]
    removed |= {step for step in left if remover.write_in_place(step)}
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

    def read_in_place(self, step: Instr) -> bool:
        """copy out whole %d, in %s; … in %d …  ->  … in view of %s …."""
        copy = _copy_from_view(step)
        dest, here = copy.dest.root, self.position[step]
        others = [index for index in self.touching[dest] if index != here]
        if dest.region is not Region.ARENA or not copy.dest.covers_root:
            return False
        if any(index < here or self._writes(index, dest) for index in others):
            return False
        if copy.src.root is dest or self._written_between(
            copy.src, here, max(others, default=here)
        ):
            return False
        return self._move(copy, dest, copy.src, others) and self._forget(here)

    def write_in_place(self, step: Instr) -> bool:
        """… out %s …; copy out %d, in whole %s  ->  … out view of %d …."""
        copy = _copy_to_view(step)
        source, here = copy.src.root, self.position[step]
        others = [index for index in self.touching[source] if index != here]
        if source.region is not Region.ARENA or not copy.src.covers_root or not others:
            return False
        if copy.dest.root is source or any(
            index > here and self._writes(index, source) for index in others
        ):
            return False
        first, last = min(others), max(*others, here)
        if self._is_left_to_updates(copy.dest, source, first):
            return False
        for index in self.touching[copy.dest.root]:
            between = first <= index <= last and index != here
            if between and self._touches(index, copy.dest):
                return False
        return self._move(copy, source, copy.dest, others) and self._forget(here)

    def _forget(self, here: int) -> bool:
        """An instruction that is removed touches nothing any more."""
        for root in {buffer.root for _, buffer in self.steps[here].accesses()}:
            if here in self.touching[root]:
                self.touching[root].remove(here)
        return True

    def _is_left_to_updates(self, dest: Buffer, source: Buffer, first: int) -> bool:
        """Whether one step makes state of what others read of it: they may become one stack.

        Once the result lies in the state, those who read the old one could not join its writer.
        `update_in_place` moves it there afterwards.
        """
        if dest.region is not Region.STATE or dest.is_view:
            return False
        writers = [index for index in self.touching[source] if self._writes(index, source)]
        is_read = any(index < first for index in self.touching[dest])
        return is_read and len(writers) == 1 and isinstance(self.steps[writers[0]], OpInstr)

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
            split = _with_axes_split(place, old.type)
            if split is None:
                return False
            place = split
        moved: dict[Buffer, Buffer] = {}
        where = list(where)
        if not _is_in_order(place) and not all(_takes_any_order(self.steps[i]) for i in where):
            return False
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


def _keeps_rows(step: Instr) -> bool:
    """Whether a step is a transpose that does not move the last axis."""
    if not isinstance(step, OpInstr) or not isinstance(step.op, Transpose):
        return False
    perm = step.op.perm
    return step.predicate is None and bool(perm) and perm[-1] == len(perm) - 1


def _copy_from_view(step: Instr) -> Copy:
    """What a copy or a transpose does, as a copy of a view of its operand."""
    if isinstance(step, Copy):
        return step
    perm, out, x = _turn(step)
    return Copy(out, _at(x, out.type, taken(x.strides, perm)), origins_of(step))


def _copy_to_view(step: Instr) -> Copy:
    """What a copy or a transpose does, as a copy to a view of its result."""
    if isinstance(step, Copy):
        return step
    perm, out, x = _turn(step)
    back = [perm.index(axis) for axis in range(len(perm))]
    return Copy(_at(out, x.type, taken(out.strides, back)), x, origins_of(step))


def _turn(step: Instr) -> tuple[tuple[int, ...], Buffer, Buffer]:
    assert isinstance(step, OpInstr)
    assert isinstance(step.op, Transpose)
    (out,), (x,) = step.outs, step.required
    return step.op.perm, out, x


def _at(buffer: Buffer, type: TensorType, strides: tuple[int, ...]) -> Buffer:
    root = buffer.root
    return Buffer(buffer.name, type, root.region, base=root, start=buffer.start, strides=strides)


def _with_axes_split(place: Buffer, type: TensorType) -> Buffer | None:
    """A view with axes cut into several, such as columns into heads; None if it needs others.

    Whether ranged extents are parts of each other is not asked.
    """
    if place.type.is_ranged or type.is_ranged:
        return None
    extents, strides = list(type.shape), []
    for whole, stride in zip(place.type.shape, place.strides, strict=True):
        parts: list[int] = []
        while extents and math.prod(parts) < whole:
            parts.append(extents.pop(0))
        if math.prod(parts) != whole:
            return None
        strides += [stride * math.prod(parts[i + 1 :]) for i in range(len(parts))]
    return None if extents else _at(place, type, tuple(strides))


def _is_in_order(place: Buffer) -> bool:
    """Whether no axis lies inside one that comes after it."""
    steps = [s for n, s in zip(place.type.shape, place.strides, strict=True) if n != 1]
    return all(at_least(outer, inner) for outer, inner in pairwise(steps))


def _takes_any_order(step: Instr) -> bool:
    if isinstance(step, Copy) or _keeps_rows(step):
        return True
    return isinstance(step, OpInstr) and step.op.takes_any_order


def _view(buffer: Buffer, root: Buffer, start: int, strides: tuple[int, ...]) -> Buffer:
    """The same name and type at another place; the whole of its root is the root itself."""
    view = Buffer(buffer.name, buffer.type, root.region, base=root, start=start, strides=strides)
    return root if view.covers_root and view.type == root.type else view
