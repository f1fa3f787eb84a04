"""The lines of a reduction as units of work, divided among vectors, groups and blocks."""

from __future__ import annotations

from afterglow.backends.cpu.micro.lanes import fitting_lanes, full_lanes
from afterglow.backends.cpu.micro.layout import LineLayout
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, boolean, f32, i8, u8


def arithmetic_type(dtype: DType) -> DType:
    """The type in which elements are computed: narrow floats in f32, booleans as bytes."""
    if dtype.is_narrow_float:
        return f32
    if dtype is boolean or dtype.bits < 8:
        return i8 if dtype.is_integer and dtype.is_signed else u8
    return dtype


def lanes_of(target: Target, dtype: DType, layout: LineLayout) -> int:
    """How many lanes vectors have: less than twice as many as there are columns."""
    return fitting_lanes(full_lanes(target, dtype), layout.columns)


@dataclass(frozen=True)
class LineCut:
    """A part of each line: a block of rows; or of columns, where a line is a single row."""

    layout: LineLayout
    size: int

    @property
    def is_along_row(self) -> bool:
        """Whether a block is a run of columns."""
        return not self.layout.across and self.layout.rows == 1

    @property
    def extent(self) -> int:
        """What is cut."""
        return self.layout.columns if self.is_along_row else self.layout.rows

    @property
    def blocks(self) -> int:
        """How many blocks a line has."""
        return -(-self.extent // self.size)


@dataclass(frozen=True)
class ReductionLines:
    """All lines of a phase.

    Where vectors lie across lines, a unit is `side` vectors of them; else it is one line. If they
    are cut, a unit is one block of that.
    """

    layout: LineLayout
    dtype: DType
    lanes: int
    side: int = 1
    cut: LineCut | None = None

    @property
    def units(self) -> int:
        """How many units there are."""
        return self.layout.lines * self.groups * (self.cut.blocks if self.cut else 1)

    @property
    def groups(self) -> int:
        """Into how many groups lines side by side are divided."""
        return -(-self.layout.columns // (self.side * self.lanes)) if self.layout.across else 1

    @property
    def room_of_row(self) -> int:
        """Elements that a row of a unit takes in scratch memory."""
        most = self.side * self.lanes
        return most if self.layout.across else -(-self.layout.columns // self.lanes) * self.lanes
