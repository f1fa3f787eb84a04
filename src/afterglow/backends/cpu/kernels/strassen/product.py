"""A product of matrices as Strassen's algorithm sees it."""

from __future__ import annotations

import math

from afterglow.backends.cpu.micro.rows import Axes
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32


@dataclass(frozen=True)
class StrassenProduct:
    """lhs [rows, depth] by rhs [depth, columns], perhaps with a bias for each column.

    `places` says where the rows of lhs begin; their elements are neighbours. `by_columns` means
    that rhs lies as [columns, depth]. Row m is row m of the result.
    """

    lhs: Buffer
    rhs: Buffer
    bias: Buffer | None
    places: Axes
    depth: int
    columns: int
    by_columns: bool

    @property
    def rows(self) -> int:
        """The number of rows."""
        return math.prod(self.places.extents)

    @property
    def work(self) -> float:
        """FLOPs of the product as it is defined."""
        return 2.0 * self.rows * self.depth * self.columns

    def is_suitable(self, step: OpInstr) -> bool:
        """Whether everything is of a type, and is known, as the algorithm needs it."""
        factors = (self.rhs, self.bias)
        known = all(b is None or b.root.region is Region.CONSTANT for b in factors)
        buffers = (self.lhs, *factors, step.outs[0])
        return known and all(b is None or b.type.dtype is f32 for b in buffers)
