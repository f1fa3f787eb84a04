"""Which buffers are resident in fast memory, and when."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from afterglow.instr import Access, Buffer, Copy, Instr, Program, Region, Stack, origins_of
from afterglow.instr.printer import instruction_text
from afterglow.memory.lifetimes import Lifetime, aligned
from afterglow.memory.memories import Memories
from afterglow.memory.uses import Uses
from afterglow.support.errors import UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import string


@dataclass
class Residency:
    """A buffer in fast memory, from instruction `issue` to `last`, both included.

    It stands for `operand` in the instructions of `uses`: it is fetched from `source` before the
    first of them, and copied to `target` after the last.
    """

    buffer: Buffer
    operand: Buffer
    size: int
    issue: int
    last: int
    uses: tuple[int, ...] = ()
    source: Buffer | None = None
    target: Buffer | None = None

    @property
    def first(self) -> int:
        """The instruction that needs it first."""
        return self.uses[0] if self.uses else self.issue

    @property
    def life(self) -> Lifetime:
        """When it takes up memory."""
        return Lifetime(self.issue, self.last, self.size)


def choose_residencies(program: Program, memories: Memories, ambition: float) -> list[Residency]:
    """Fill a part of fast memory, `ambition`, with what pays most, and move the rest through it."""
    return _Chooser(program, memories, ambition).run()


@dataclass(frozen=True)
class _Use:
    """An instruction works on an operand."""

    index: int
    operand: Buffer
    reads: bool
    writes: bool


@dataclass(frozen=True)
class _Candidate:
    """A buffer that could be resident in fast memory from its first use to its last."""

    buffer: Buffer
    uses: tuple[_Use, ...]
    first: int
    last: int

    @property
    def in_arena(self) -> bool:
        """Whether it could lie there only; otherwise it is a copy, fetched once."""
        return self.buffer.region is Region.ARENA

    @property
    def benefit(self) -> float:
        """How often each of its bytes need not be moved then."""
        traffic = sum(use.operand.type.nbytes * (use.reads + use.writes) for use in self.uses)
        return traffic / max(self.buffer.type.nbytes, 1) - (not self.in_arena)


class _Chooser:
    """Keeps how many bytes of fast memory are taken at each instruction."""

    def __init__(self, program: Program, memories: Memories, ambition: float) -> None:
        self.memories = memories
        self.touched = Uses(program)
        self.uses = [use for index, step in enumerate(program.body) for use in _uses(index, step)]
        capacity = memories.fast.capacity
        self.room = np.inf if capacity is None else capacity * ambition
        self.taken = np.zeros(len(program.body), np.int64)
        if memories.computes_in_fast:
            for use in self.uses:
                self.taken[use.index] += self._size(use.operand)
            self._check_needs(program)

    def run(self) -> list[Residency]:
        candidates = sorted(self._candidates(), key=lambda candidate: -candidate.benefit)
        residents = [candidate for candidate in candidates if self._admit(candidate)]
        residencies = [self._resident(candidate) for candidate in residents]
        if self.memories.computes_in_fast:
            served = {use for candidate in residents for use in candidate.uses}
            residencies.extend(self._visit(use) for use in self.uses if use not in served)
        for residency in sorted(residencies, key=lambda each: each.first):
            if residency.source is not None:
                self._issue_early(residency, residency.source.root)
        return residencies

    def _size(self, buffer: Buffer) -> int:
        return aligned(buffer.type.nbytes, self.memories.fast.alignment)

    def _check_needs(self, program: Program) -> None:
        fast = self.memories.fast
        for step, need in zip(program.body, self.taken, strict=True):
            if fast.capacity is not None and need > fast.capacity:
                raise UnsupportedError(
                    f"an instruction needs {need} bytes of memory {fast.name!r}, "
                    f"which has {fast.capacity}",
                    where=_where(step),
                    excerpt=[f"> {line}" for line in instruction_text(step).splitlines()],
                    help="give the target more of this memory, or split the layer",
                )

    def _candidates(self) -> Iterator[_Candidate]:
        """Buffers of the arena, and what is only read, several times."""
        uses_of: dict[Buffer, list[_Use]] = {}
        for use in self.uses:
            arena = use.operand.region is Region.ARENA
            uses_of.setdefault(use.operand.root if arena else use.operand, []).append(use)
        for buffer, uses in uses_of.items():
            if buffer.region is Region.ARENA:
                touched = self.touched.touching(buffer)
                yield _Candidate(buffer, tuple(uses), touched[0], touched[-1])
            elif self._is_worth_a_copy(buffer, uses):
                yield _Candidate(buffer, tuple(uses), uses[0].index, uses[-1].index)

    def _is_worth_a_copy(self, buffer: Buffer, uses: list[_Use]) -> bool:
        unchanging = buffer.region in (Region.CONSTANT, Region.INPUT) and not buffer.root.donated
        return unchanging and len(uses) > 1 and self.memories.computes_in_fast

    def _admit(self, candidate: _Candidate) -> bool:
        """Take a candidate in if there is room for it all the time."""
        span = slice(candidate.first, candidate.last + 1)
        after = self.taken[span] + self._size(candidate.buffer)
        if self.memories.computes_in_fast:
            for use in candidate.uses:
                after[use.index - candidate.first] -= self._size(use.operand)
        if (after > np.maximum(self.taken[span], self.room)).any():
            return False
        self.taken[span] = after
        return True

    def _resident(self, candidate: _Candidate) -> Residency:
        buffer, size = candidate.buffer, self._size(candidate.buffer)
        if candidate.in_arena:
            return Residency(buffer, buffer, size, candidate.first, candidate.last)
        indices = tuple(use.index for use in candidate.uses)
        return Residency(
            _twin(buffer), buffer, size, candidate.first, candidate.last, indices, source=buffer
        )

    def _visit(self, use: _Use) -> Residency:
        """A residency for one instruction only."""
        index, operand = use.index, use.operand
        return Residency(
            _twin(operand),
            operand,
            self._size(operand),
            index,
            index,
            (index,),
            source=operand if use.reads else None,
            target=operand if use.writes else None,
        )

    def _issue_early(self, residency: Residency, source: Buffer) -> None:
        """Let a transfer begin as early as there is something to fetch, and room for it."""
        written = [w for w in self.touched.writers.get(source, ()) if w < residency.first]
        earliest = written[-1] + 1 if written else 0
        most = self.room - residency.size
        while residency.issue > earliest and self.taken[residency.issue - 1] <= most:
            residency.issue -= 1
            self.taken[residency.issue] += residency.size


def _where(step: Instr) -> str:
    """The model's own nodes that an instruction comes from."""
    origins = ", ".join(origins_of(step))
    return f"in node {origins}" if origins else ""


def _twin(buffer: Buffer) -> Buffer:
    return Buffer(f"{buffer.name}.fast", buffer.type, Region.ARENA)


def _uses(index: int, step: Instr) -> Iterator[_Use]:
    """Each operand of a computation once; a copy can be made between any memories."""
    if isinstance(step, Copy):
        return
    accesses = [(access, b) for access, b in step.accesses() if b.type.dtype is not string]
    for operand in dict.fromkeys(buffer for _, buffer in accesses):
        kinds = [access for access, buffer in accesses if buffer is operand]
        writes = any(access.writes and access is not Access.SCRATCH for access in kinds)
        yield _Use(index, operand, _reads(step, operand), writes)


def _reads(step: Instr, operand: Buffer) -> bool:
    """Whether it matters what an operand holds before: a stack may read what it has written."""
    for member in step.body if isinstance(step, Stack) else (step,):
        kinds = [access for access, buffer in member.accesses() if buffer is operand]
        if kinds:
            return any(access.reads for access in kinds)
    return False
