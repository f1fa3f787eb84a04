"""Ops that put elements at given indices of a tensor."""

from __future__ import annotations

import math
from enum import Enum

import numpy as np

from afterglow.graph import Array, Builder, Op, Value, op
from afterglow.ops.indexing import (
    check_element_indices,
    check_tuple_indices,
    element_places,
    linear_places,
)
from afterglow.ops.movement import Reshape
from afterglow.ops.rules import require, require_same_dtype, require_shape
from afterglow.types import TensorType


class ScatterReduction(Enum):
    """What becomes of the old element where a new one is put."""

    NONE = "none"
    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"


_UFUNCS: dict[ScatterReduction, np.ufunc] = {
    ScatterReduction.ADD: np.add,
    ScatterReduction.MUL: np.multiply,
    ScatterReduction.MAX: np.maximum,
    ScatterReduction.MIN: np.minimum,
}


@op("scatter_elements")
class ScatterElements(Op):
    """data with updates put in one by one: the index replaces the place along the axis."""

    inplace = ("data",)
    axis: int = 0
    reduction: ScatterReduction = ScatterReduction.NONE

    def infer(self, data: TensorType, indices: TensorType, updates: TensorType) -> TensorType:
        """The type of data; there is one update for each index."""
        _check_updates(self.reduction, data, updates)
        check_element_indices(self.axis, data, indices)
        require_shape(indices.shape, updates=updates)
        return data

    def evaluate(self, data: Array, indices: Array, updates: Array) -> Array:
        """Assign or combine at index arrays that span all axes."""
        places: list[Array] = [*np.indices(indices.shape, sparse=True)]
        places[self.axis] = indices.astype(np.int64)
        return _combined(data, tuple(places), updates, self.reduction)

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


@op("scatter_nd")
class ScatterND(Op):
    """data with slices put in by index tuples along the last axis of indices.

    Of several updates of one place, the last stays if they do not combine.
    """

    inplace = ("data",)
    reduction: ScatterReduction = ScatterReduction.NONE

    def infer(self, data: TensorType, indices: TensorType, updates: TensorType) -> TensorType:
        """The type of data; there is one slice for each tuple."""
        _check_updates(self.reduction, data, updates)
        depth = check_tuple_indices(0, data, indices)
        require_shape((*indices.shape[:-1], *data.shape[depth:]), updates=updates)
        return data

    def evaluate(self, data: Array, indices: Array, updates: Array) -> Array:
        """Assign or combine rows of data whose indexed axes are joined."""
        depth = indices.shape[-1]
        indexed, rest = data.shape[:depth], data.shape[depth:]
        places = linear_places(indices, indexed).reshape(-1)
        rows = data.reshape(math.prod(indexed), *rest)
        news = updates.reshape(len(places), *rest)
        return _combined(rows, (places,), news, self.reduction).reshape(data.shape)


def _check_updates(reduction: ScatterReduction, data: TensorType, updates: TensorType) -> None:
    dtype = require_same_dtype(data=data, updates=updates)
    require(
        reduction is ScatterReduction.NONE or dtype.is_number,
        f"only numbers can be combined, got {data}",
    )


def _combined(
    data: Array, places: tuple[Array, ...], updates: Array, reduction: ScatterReduction
) -> Array:
    result = data.copy()
    if reduction is ScatterReduction.NONE:
        result[places] = updates
    else:
        _UFUNCS[reduction].at(result, places, updates)
    return result
