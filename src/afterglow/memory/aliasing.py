"""Let buffers of the arena alias memory that the caller gives: outputs and donated inputs.

An output is free until its first element is written, and an input that the caller donates is free
after its last element has been read. A buffer that is live only in that time becomes a view of it,
and its end is marked by a `Dealloc` of that view. If the output is then written over it element by
element, it may even be live until then. Only what makes the peak lower is moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from operator import itemgetter

import numpy as np

from afterglow.instr import Buffer, Dealloc, Instr, Program, Region
from afterglow.instr.overlap import same_place
from afterglow.memory.lifetimes import Lifetime, aligned
from afterglow.memory.planner import scratch_of
from afterglow.memory.sharing import replaceable_operands
from afterglow.memory.uses import Uses
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import string
from afterglow.types.extent import at_least


def donate_inputs(program: Program) -> None:
    """Mark all inputs as donated: they may be overwritten once they have been read."""
    for buffer in program.inputs:
        buffer.donated = buffer.type.dtype is not string


def alias_memory(program: Program) -> int:
    """Move buffers into memory of the caller while that lowers the peak; say how many."""
    return _Aliaser(program).run()


@dataclass
class _Host:
    """A buffer of the caller, when it is free, and what has been moved there."""

    buffer: Buffer
    free: range
    taken: dict[int, list[tuple[int, Lifetime]]] = field(default_factory=dict)
    """For each instruction at which something that was moved here is live: where, and when."""

    def room_for(self, moved: Buffer, life: Lifetime) -> int | None:
        """The lowest offset at which a buffer fits, at all extents; None if there is none.

        Elements must not be wider than the host's: that is aligned for those.
        """
        wider = moved.type.dtype.itemsize > self.buffer.type.dtype.itemsize
        if wider or life.start not in self.free or life.end not in self.free:
            return None
        offset = 0
        for start, other in sorted(self._met_by(life), key=itemgetter(0)):
            if offset + life.size > start:
                offset = max(offset, start + other.size)
        host, type = self.buffer.type, moved.type
        left = host.size * host.dtype.itemsize - type.size * type.dtype.itemsize
        return offset if at_least(left, offset) else None

    def take(self, offset: int, life: Lifetime) -> None:
        """Note what is moved here."""
        for index in range(life.start, life.end + 1):
            self.taken.setdefault(index, []).append((offset, life))

    def _met_by(self, life: Lifetime) -> Iterator[tuple[int, Lifetime]]:
        """What is live at some time of a lifetime, each once: the work is that of the lifetime."""
        for index in range(life.start, life.end + 1):
            for place, other in self.taken.get(index, ()):
                if index in (life.start, other.start):
                    yield place, other


@dataclass(frozen=True)
class _Alias:
    """A buffer of the arena, and where it lies from now on."""

    moved: Buffer
    host: _Host
    offset: int
    end: int | None
    """The instruction after which it holds nothing; None if it becomes the output itself."""

    def view_of(self, buffer: Buffer) -> Buffer:
        """The buffer, or a view of it, at its new place."""
        root = self.host.buffer
        start = buffer.start + self.offset // buffer.type.dtype.itemsize
        return Buffer(
            buffer.name, buffer.type, root.region, base=root, start=start, strides=buffer.strides
        )


class _Aliaser:
    """Knows when each buffer is live, and how many bytes of the arena are, at each instruction."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uses = Uses(program)
        self.lives = dict(self._lives())
        self.scratch = scratch_of(program)
        """What kernels work in stays in the arena, which is aligned for it."""
        self.hosts = sorted(self._hosts(), key=lambda host: host.buffer.type.nbytes)
        self.live = np.zeros(len(program.body), np.int64)
        for life in self.lives.values():
            self.live[life.start : life.end + 1] += life.size
        self.alive: list[list[Buffer]] = [[] for _ in program.body]
        """What is live at each instruction, moved or not."""
        for root, life in self.lives.items():
            for index in range(life.start, life.end + 1):
                self.alive[index].append(root)

    def run(self) -> int:
        aliases: list[_Alias] = []
        worth = 0
        peak = self.live.max(initial=0)
        while self.hosts and (alias := self._next_alias()) is not None:
            aliases.append(alias)
            if self.live.max() < peak:
                peak, worth = self.live.max(), len(aliases)
        self._move(aliases[:worth])
        return worth

    def _lives(self) -> Iterator[tuple[Buffer, Lifetime]]:
        for root in {**self.uses.readers, **self.uses.writers}:
            if root.region is Region.ARENA and root.type.dtype is not string:
                touched = self.uses.touching(root)
                yield root, Lifetime(touched[0], touched[-1], aligned(root.type.nbytes, ALIGNMENT))

    def _hosts(self) -> Iterator[_Host]:
        for buffer in self.program.outputs:
            touched = self.uses.touching(buffer)
            if touched and buffer.type.dtype is not string:
                yield _Host(buffer, range(touched[0]))
        for buffer in self.program.inputs:
            if buffer.donated:
                touched = self.uses.touching(buffer) or [-1]
                yield _Host(buffer, range(touched[-1] + 1, len(self.program.body)))

    def _next_alias(self) -> _Alias | None:
        """Move the largest buffer that can be moved of those live at the peak."""
        when = int(self.live.argmax())
        here = [r for r in self.alive[when] if r in self.lives and r not in self.scratch]
        for root in sorted(here, key=lambda root: -self.lives[root].size):
            for host in self.hosts:
                alias = self._alias(root, host)
                if alias is not None:
                    life = self.lives.pop(root)
                    self.live[life.start : life.end + 1] -= life.size
                    host.take(alias.offset, life)
                    return alias
        return None

    def _alias(self, root: Buffer, host: _Host) -> _Alias | None:
        life = self.lives[root]
        offset = host.room_for(root, life)
        if offset is not None:
            return _Alias(root, host, offset, life.end)
        before = Lifetime(life.start, life.end - 1, life.size)
        if host.room_for(root, before) == 0 and self._becomes(root, life.end, host.buffer):
            return _Alias(root, host, 0, None)
        return None

    def _becomes(self, root: Buffer, index: int, output: Buffer) -> bool:
        """Whether an instruction can write an output over a buffer, element by element."""
        step = self.program.body[index]
        results = [b for access, b in step.accesses() if access.writes and b.root is output]
        if len(results) != 1 or not results[0].covers_root:
            return False
        return any(
            operand.root is root
            and operand.covers_root
            and all(b.root is not root or same_place(b, operand) for _, b in step.accesses())
            for operand in replaceable_operands(step, results[0])
        )

    def _move(self, aliases: Sequence[_Alias]) -> None:
        places = {alias.moved: alias for alias in aliases}
        moved: dict[Buffer, Buffer] = {}

        def change(buffer: Buffer) -> Buffer:
            if buffer not in moved:
                alias = places.get(buffer.root)
                moved[buffer] = buffer if alias is None else alias.view_of(buffer)
            return moved[buffer]

        ending: dict[int, list[Instr]] = {}
        for alias in aliases:
            if alias.end is not None:
                ending.setdefault(alias.end, []).append(Dealloc(change(alias.moved)))
        body: list[Instr] = []
        for index, step in enumerate(self.program.body):
            step.substitute(change)
            body.extend((step, *ending.get(index, ())))
        self.program.body = body
