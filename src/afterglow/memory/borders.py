"""Put a border around what padded windows read, so that their kernels have no edge case.

A buffer with a border is a larger one, of which the old one is the inner window: whoever produced
the old one writes the window, and the border is filled once, before. The backend says which border
the kernel of an op wants, and which op without padding it then is. A pitch is a border that nobody
fills: it only keeps rows or channels apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from afterglow.graph import Border
from afterglow.instr import Buffer, Instr, OpInstr, Program, Region
from afterglow.instr.overlap import placed_inside
from afterglow.instr.slabs import slabs_around
from afterglow.memory.uses import Uses
from afterglow.ops.fill import Fill

MOST_GROWTH = 2.0
"""A buffer that would grow by more than this factor stays without a border."""

BorderOf: TypeAlias = Callable[[OpInstr], Border | None]
"""The border that the kernel of an instruction asks for around its first operand."""
_Requests: TypeAlias = list[tuple[OpInstr, Border]]


def add_borders(program: Program, border_of: BorderOf) -> int:
    """Give borders to buffers of the arena whose readers ask for one; say to how many."""
    uses = Uses(program)
    fills: dict[int, list[Instr]] = {}
    count = 0
    for root in [buffer for buffer in uses.readers if buffer.region is Region.ARENA]:
        requests = list(_requests(root, uses, border_of))
        surrounding = _Surrounding(program, root, requests, uses) if requests else None
        if surrounding is not None and surrounding.is_possible():
            fills.setdefault(min(uses.touching(root)), []).extend(surrounding.apply())
            count += 1
    program.body = [s for i, step in enumerate(program.body) for s in (*fills.get(i, ()), step)]
    return count


def _requests(root: Buffer, uses: Uses, border_of: BorderOf) -> Iterator[tuple[OpInstr, Border]]:
    """Who reads a whole buffer and asks for a border; all that count ask for the same in it."""
    value = None
    for index in uses.readers[root]:
        step = uses.steps[index]
        if not isinstance(step, OpInstr) or step.ins.count(root) != 1 or step.ins[0] is not root:
            continue
        border = border_of(step)
        if border is not None and value in (None, border.value):
            value = border.value
            yield step, border


class _Surrounding:
    """One buffer to be made the inner window of a larger one."""

    def __init__(self, program: Program, old: Buffer, requests: _Requests, uses: Uses) -> None:
        self.program = program
        self.old = old
        self.requests = requests
        self.steps = [uses.steps[index] for index in uses.touching(old)]
        none = (0,) * old.type.rank
        self.before = _most([border.before for _, border in requests])
        after = _most([border.after for _, border in requests])
        pitch = _most([border.pitch or none for _, border in requests])
        self.filled = _sum(self.before, old.type.shape, after)
        shape = _sum(self.filled, pitch)
        name = program.names.claim(f"{old.name}.bordered")
        self.new = Buffer(name, old.type.with_shape(shape), Region.ARENA)
        self.inner = self._window(old.name, self.before, old.type.shape)

    def is_possible(self) -> bool:
        """Whether it does not grow too much, and every view of it has a place inside."""
        if self.new.type.nbytes > MOST_GROWTH * self.old.type.nbytes:
            return False
        return all(placed_inside(view, self.inner) is not None for view in self._views())

    def apply(self) -> list[Instr]:
        """Change all who use the buffer; return what fills the border."""
        moved = {self.old: self.inner}
        for view in self._views():
            start, strides = placed_inside(view, self.inner) or (0, ())
            moved.setdefault(view, self._at(view.name, view.type.shape, start, strides))
        for reader, border in self.requests:
            reader.op = border.op
            reader.ins = (self._with_border(border), *reader.ins[1:])
        for step in self.steps:
            step.substitute(lambda buffer: moved.get(buffer, buffer))
        return list(self._fills())

    def _views(self) -> Iterator[Buffer]:
        for step in self.steps:
            yield from (b for _, b in step.accesses() if b.root is self.old and b.is_view)

    def _with_border(self, border: Border) -> Buffer:
        """As much of the larger buffer as one reader wants."""
        starts = [most - own for most, own in zip(self.before, border.before, strict=True)]
        extents = _sum(border.before, self.old.type.shape, border.after)
        if extents == self.new.type.shape:
            return self.new
        return self._window(f"{self.old.name}.read", starts, extents)

    def _fills(self) -> Iterator[Instr]:
        """Fill what lies around the inner window."""
        value = self.requests[0][1].value
        for starts, extents in slabs_around(self.filled, self.before, self.old.type.shape):
            slab = self._window(f"{self.old.name}.border", starts, extents)
            yield OpInstr(Fill(slab.type.shape, value, slab.type.dtype), (slab,), ())

    def _window(self, name: str, starts: Sequence[int], extents: Sequence[int]) -> Buffer:
        start = sum(s * i for s, i in zip(self.new.strides, starts, strict=True))
        return self._at(name, extents, start, self.new.strides)

    def _at(self, name: str, shape: Sequence[int], start: int, strides: Sequence[int]) -> Buffer:
        type = self.old.type.with_shape(shape)
        unique = name if name == self.old.name else self.program.names.claim(name)
        return Buffer(unique, type, Region.ARENA, base=self.new, start=start, strides=strides)


def _sum(*counts: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*counts, strict=True)))


def _most(counts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(max, zip(*counts, strict=True)))
