"""Parts of tensors along one axis, and how an op computes a part of its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType

if TYPE_CHECKING:
    from afterglow.graph.op import Op


@dataclass(frozen=True)
class Cut:
    """The part of a tensor from `start` up to, but without, `stop` along one axis."""

    axis: int
    start: int
    stop: int

    @property
    def extent(self) -> int:
        """How many elements it has along the axis."""
        return self.stop - self.start

    def hull(self, other: Cut) -> Cut:
        """The smallest part along the same axis that holds both."""
        return Cut(self.axis, min(self.start, other.start), max(self.stop, other.stop))

    def of(self, type: TensorType) -> TensorType:
        """The type of that part of a tensor."""
        return type.with_shape(with_extent(type.shape, self.axis, self.extent))


@dataclass(frozen=True)
class Band:
    """How to compute a part of a result: by which op, from which part of each operand.

    An operand without a cut is read whole. The op may compute more than the part: `skip` elements
    before it, and any number behind it.
    """

    op: Op
    cuts: tuple[Cut | None, ...]
    skip: int = 0


def with_extent(extents: tuple[int, ...], axis: int, extent: int) -> tuple[int, ...]:
    """A tuple with one entry per axis, with the entry of one axis replaced."""
    return (*extents[:axis], extent, *extents[axis + 1 :])
