"""Operands that are read several times, cached in other memory where that is faster."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, store_masked
from afterglow.backends.cpu.micro.access import Reader
from afterglow.backends.cpu.micro.kernel import KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.reduction_line import Position
from afterglow.backends.cpu.micro.reduction_lines import ReductionLines
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import largest

CACHED = "cached"
"""The name of the memory that operands are cached in."""
MOST_CACHED = 1 << 16
"""Elements of a unit that are cached: more would not stay in the caches of a core."""


MOST_SHARED = 1 << 20
"""Elements of a tensor that are cached from one phase to the next."""


@dataclass(frozen=True)
class OperandCache:
    """Memory for the elements of one unit; or of all lines, rows `row_stride` apart."""

    pointer: Pointer
    row_stride: int | None = None

    def load(self, position: Position) -> Value:
        """What was stored at a position."""
        return self.pointer.load(self._place(position), position.line.lines.lanes)

    def store(self, position: Position, value: Value) -> None:
        """Store a value at a position; lanes that do not count only within one unit."""
        if self.row_stride is None or position.mask is None:
            self.pointer.store(value, self._place(position))
        else:
            store_masked(self.pointer, value, position.mask, self._place(position))

    def _place(self, position: Position) -> Index:
        if self.row_stride is None:
            return position.place
        return position.row_number * self.row_stride + position.column


def cache_needs(lines: ReductionLines) -> KernelNeeds:
    """Memory for one unit, or for all lines if several phases share them; none for very many."""
    layout = lines.layout
    if lines.cut is None:
        size = layout.rows * lines.room_of_row
        return KernelNeeds(
            scratch={CACHED: Storage(lines.dtype, size)} if largest(size) <= MOST_CACHED else {}
        )
    size = layout.lines * layout.rows * _row_stride(lines)
    return KernelNeeds(
        workspace={CACHED: Storage(lines.dtype, size)} if largest(size) <= MOST_SHARED else {}
    )


def cache_for(p: Phase, lines: ReductionLines) -> OperandCache | None:
    """The cache that the kernel has for lines, if it has any."""
    if CACHED in p.kernel.needs.scratch:
        return OperandCache(p.scratch(CACHED))
    return (
        OperandCache(p.workspace(CACHED), _row_stride(lines))
        if CACHED in p.kernel.needs.workspace
        else None
    )


def _row_stride(lines: ReductionLines) -> int:
    return -(-lines.layout.columns // lines.lanes) * lines.lanes


def must_compute(r: KernelRequest) -> bool:
    """Whether the first operand must be computed or converted, rather than only read."""
    x = r.step.ins[0]
    assert x is not None
    return bool(r.job.before) or x.type.dtype.is_narrow_float


@dataclass(frozen=True)
class CachedOperand:
    """The first operand of several walks along a line, read each time if there is no cache."""

    source: Reader
    cache: OperandCache | None

    def first(self, position: Position) -> Value:
        """What is at a position, the first time that it is read."""
        value = position.load(self.source)
        if self.cache is not None:
            self.cache.store(position, value)
        return value

    def again(self, position: Position) -> Value:
        """What is at a position, once all of the line was read."""
        return position.load(self.source) if self.cache is None else self.cache.load(position)


def cached(p: Phase, source: Reader, cache: OperandCache | None) -> CachedOperand:
    """The operand, cached if that saves work."""
    return CachedOperand(source, cache if must_compute(p.kernel) else None)
