"""Put a halo around what padded windows read, so that their kernels have no edge case.

A buffer with a halo is a larger one, of which the old one is the inner window: whoever produced
the old one writes the window, and the halo is filled once, before. The op says which halo replaces
its padding (`Op.with_halo`), the plan of its kernel whether that is wanted, and whether to leave a
gap behind it that nobody fills, which makes row strides larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from afterglow.graph import Halo, joined_origins
from afterglow.instr import Buffer, Instr, OpInstr, Program, Region
from afterglow.instr.overlap import placed_inside, slabs_around
from afterglow.memory.kernel_plans import PlanStep
from afterglow.memory.uses import Uses
from afterglow.ops.fill import Fill
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import larger_extent

MOST_GROWTH = 2.0
"""A buffer that would grow by more than this factor stays without a halo."""

SUFFIX = ".halo"
"""What the name of a buffer ends with that has a halo around it."""


@dataclass(frozen=True)
class _Request:
    """An instruction whose kernel wants a halo around its first operand."""

    step: OpInstr
    halo: Halo
    gap: tuple[int, ...]


def add_halos(program: Program, plan: PlanStep) -> int:
    """Give halos to buffers of the arena that kernels want to read so; say to how many."""
    uses = Uses(program)
    fills: dict[int, list[Instr]] = {}
    count = 0
    for root in [buffer for buffer in uses.readers if buffer.region is Region.ARENA]:
        requests = list(_requests(root, uses, plan))
        surrounding = _Surrounding(program, root, requests, uses) if requests else None
        if surrounding is not None and surrounding.is_possible():
            fills.setdefault(min(uses.touching(root)), []).extend(surrounding.apply())
            count += 1
    program.body = [s for i, step in enumerate(program.body) for s in (*fills.get(i, ()), step)]
    return count


def _requests(root: Buffer, uses: Uses, plan: PlanStep) -> Iterator[_Request]:
    """Who reads a whole buffer and wants a halo around it; all of them want one of equal value."""
    value = None
    for index in uses.readers[root]:
        step = uses.steps[index]
        if not isinstance(step, OpInstr) or step.ins.count(root) != 1 or step.ins[0] is not root:
            continue
        request = _request(step, plan)
        if request is not None and value in (None, request.halo.value):
            value = request.halo.value
            yield request


def _request(step: OpInstr, plan: PlanStep) -> _Request | None:
    """What the kernel of an instruction wants, if its op has padding."""
    halo = step.op.with_halo([None if b is None else b.type for b in step.ins])
    planned = None if halo is None else plan(step)
    if halo is None or planned is None or 0 not in planned.halo:
        return None
    return _Request(step, halo, planned.gap or (0,) * len(halo.before))


class _Surrounding:
    """One buffer to be made the inner window of a larger one."""

    def __init__(self, program: Program, old: Buffer, requests: list[_Request], uses: Uses) -> None:
        self.program = program
        self.old = old
        self.requests = requests
        self.steps = [uses.steps[index] for index in uses.touching(old)]
        self.before = _most([request.halo.before for request in requests])
        after = _most([request.halo.after for request in requests])
        self.filled = _sum(self.before, old.type.shape, after)
        shape = _sum(self.filled, _most([request.gap for request in requests]))
        name = program.names.claim(f"{old.name}{SUFFIX}")
        self.new = Buffer(name, old.type.with_shape(shape), Region.ARENA)
        self.inner = self._window(old.name, self.before, old.type.shape)

    def is_possible(self) -> bool:
        """Whether it does not grow too much, and every view of it has a place inside."""
        if self.new.type.nbytes > MOST_GROWTH * self.old.type.nbytes:
            return False
        return all(placed_inside(view, self.inner) is not None for view in self._views())

    def apply(self) -> list[Instr]:
        """Change all who use the buffer; return what fills the halo."""
        moved = {self.old: self.inner}
        for view in self._views():
            start, strides = placed_inside(view, self.inner) or (0, ())
            moved.setdefault(view, self._at(view.name, view.type.shape, start, strides))
        for request in self.requests:
            reader, halo = request.step, request.halo
            reader.op = halo.op
            reader.ins = (self._with_halo(halo), *reader.ins[1:])
        for step in self.steps:
            step.substitute(lambda buffer: moved.get(buffer, buffer))
        return list(self._fills())

    def _views(self) -> Iterator[Buffer]:
        for step in self.steps:
            yield from (b for _, b in step.accesses() if b.root is self.old and b.is_view)

    def _with_halo(self, halo: Halo) -> Buffer:
        """As much of the larger buffer as one reader wants."""
        starts = [most - own for most, own in zip(self.before, halo.before, strict=True)]
        extents = _sum(halo.before, self.old.type.shape, halo.after)
        if extents == self.new.type.shape:
            return self.new
        return self._window(f"{self.old.name}.read", starts, extents)

    def _fills(self) -> Iterator[Instr]:
        """Fill what lies around the inner window."""
        value = self.requests[0].halo.value
        origins = joined_origins(request.step.origins for request in self.requests)
        for starts, extents in slabs_around(self.filled, self.before, self.old.type.shape):
            slab = self._window(f"{self.old.name}.edge", starts, extents)
            fill = Fill(slab.type.shape, value, slab.type.dtype)
            yield OpInstr(fill, (slab,), (), origins=origins)

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
    return tuple(reduce(larger_extent, each) for each in zip(*counts, strict=True))
