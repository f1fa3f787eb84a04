"""Elements put one by one into a tensor, at given indices along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.indexing import (
    ScatterND,
    ScatterReduction,
    along,
    check_element_indices,
    check_updates,
    combined,
    element_places,
)
from afterglow.ops.movement import Reshape
from afterglow.ops.rules import require_shape
from afterglow.types import Array, IndexRanges, TensorType


@op("scatter_elements")
class ScatterElements(Op):
    """data with single elements updated: the index replaces the position along the axis."""

    inplace = ("data",)
    axis: int = 0
    reduction: ScatterReduction = ScatterReduction.NONE

    def infer(self, data: TensorType, indices: TensorType, updates: TensorType) -> TensorType:
        """The type of data; there is one update for each index."""
        check_updates(self.reduction, data, updates)
        check_element_indices(self.axis, data, indices)
        require_shape(indices.shape, updates=updates)
        return data

    def evaluate(self, data: Array, indices: Array, updates: Array) -> Array:
        """Assign or combine at index arrays that span all axes."""
        places: list[Array] = [*np.indices(indices.shape, sparse=True)]
        places[self.axis] = indices.astype(np.int64)
        return combined(data, tuple(places), updates, self.reduction)

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """Places along the axis."""
        return along(self.axis, self.required_of(operands)[0])

    def lower(self, b: Builder, data: Value, indices: Value, updates: Value) -> Value:
        """A scatter into the flattened data."""
        flat = b.emit(Reshape((data.type.size,)), data)
        places = element_places(b, self.axis, data.type.shape, indices)
        tuples = b.emit(Reshape((indices.type.size, 1)), places)
        news = b.emit(Reshape((indices.type.size,)), updates)
        scattered = b.emit(ScatterND(self.reduction), flat, tuples, news)
        return b.emit(Reshape(data.type.shape), scattered)

    def permuted(self, perm: tuple[int, ...]) -> ScatterElements:
        """Along the same axis at its new place."""
        return ScatterElements(perm.index(self.axis % len(perm)), self.reduction)
