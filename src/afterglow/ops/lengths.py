"""Lengths that data give, where other ops only compute with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.elementwise import Max, Min, scalar
from afterglow.ops.rules import require, require_integer
from afterglow.types import Array, IndexRange, IndexRanges, TensorType


@op("check_lengths")
class CheckLengths(Op):
    """The lengths unchanged, checked to be from 0 to `most`."""

    inplace = ("lengths",)
    most: int

    def infer(self, lengths: TensorType) -> TensorType:
        """The operand's own type."""
        require_integer(lengths=lengths)
        require(self.most >= 0, f"there must be room for no length at least, got {self.most}")
        return lengths

    def evaluate(self, lengths: Array) -> Array:
        """The operand: whoever runs the op checks it."""
        return np.array(lengths)

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """From none to all."""
        return {"lengths": (IndexRange.counts(self.most),)}

    def lower(self, b: Builder, lengths: Value) -> Value:
        """The nearest that is in range, where nobody can say that one is not."""
        largest = b.emit(Min(), lengths, scalar(b, self.most, lengths))
        return b.emit(Max(), largest, scalar(b, 0, lengths))
