"""Operands that are read several times: kept in other memory, where that is better."""

from __future__ import annotations

from dataclasses import dataclass

from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, store_masked
from afterglow.backends.cpu.micro.access import Reader
from afterglow.backends.cpu.micro.kernel import KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.line import Position
from afterglow.backends.cpu.micro.lines import ReductionLines

KEPT = "kept"
"""The memory that operands are kept in."""
MOST_KEPT = 1 << 16
"""Elements of a unit that are kept: more would not stay in the caches of a core."""


MOST_SHARED = 1 << 20
"""Elements of a tensor that are kept from one phase to the next."""


@dataclass(frozen=True)
class OperandCache:
    """Memory for the elements of one unit; or of all lines, with rows that lie `pitch` apart."""

    pointer: Pointer
    pitch: int | None = None

    def load(self, spot: Position) -> Value:
        """What was stored at a spot."""
        return self.pointer.load(self._place(spot), spot.line.lines.lanes)

    def store(self, spot: Position, value: Value) -> None:
        """Store something at a spot; within one unit, lanes that do not count have room, too."""
        if self.pitch is None or spot.mask is None:
            self.pointer.store(value, self._place(spot))
        else:
            store_masked(self.pointer, value, spot.mask, self._place(spot))

    def _place(self, spot: Position) -> Index:
        if self.pitch is None:
            return spot.place
        return spot.row_number * self.pitch + spot.column


def room_needs(lines: ReductionLines) -> KernelNeeds:
    """Room for one unit, or for all lines if several phases work on them; none for too many."""
    layout = lines.layout
    if lines.cut is None:
        size = layout.rows * lines.room_of_row
        return KernelNeeds(scratch={KEPT: Storage(lines.dtype, size)} if size <= MOST_KEPT else {})
    size = layout.lines * layout.rows * _pitch(lines)
    return KernelNeeds(workspace={KEPT: Storage(lines.dtype, size)} if size <= MOST_SHARED else {})


def room_for(p: Phase, lines: ReductionLines) -> OperandCache | None:
    """The room that the kernel has for lines, if it has any."""
    if KEPT in p.kernel.needs.scratch:
        return OperandCache(p.scratch(KEPT))
    return (
        OperandCache(p.workspace(KEPT), _pitch(lines)) if KEPT in p.kernel.needs.workspace else None
    )


def _pitch(lines: ReductionLines) -> int:
    return -(-lines.layout.columns // lines.lanes) * lines.lanes


def must_compute(r: KernelRequest) -> bool:
    """Whether the first operand must be computed or converted; memory as it is may be reread."""
    x = r.step.ins[0]
    assert x is not None
    return bool(r.job.before) or x.type.dtype.is_narrow_float


@dataclass(frozen=True)
class CachedOperand:
    """The first operand, for several walks along a line; without room it is read each time."""

    source: Reader
    room: OperandCache | None

    def first(self, spot: Position) -> Value:
        """What is at a spot, the first time that it is read."""
        value = spot.load(self.source)
        if self.room is not None:
            self.room.store(spot, value)
        return value

    def again(self, spot: Position) -> Value:
        """What is at a spot, once all of the line was read."""
        return spot.load(self.source) if self.room is None else self.room.load(spot)


def keep(p: Phase, source: Reader, room: OperandCache | None) -> CachedOperand:
    """Keep the operand if that saves work."""
    return CachedOperand(source, room if must_compute(p.kernel) else None)
