"""Lengths and labels that data give, checked where other ops only compute with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.elementwise import Less, Max, Min, Where, scalar
from afterglow.ops.rules import require, require_integer
from afterglow.support.errors import IndexRangeError
from afterglow.types import Array, IndexRange, IndexRanges, TensorType


def require_labels(op: Op, labels: Array, classes: int) -> None:
    """Raise `IndexRangeError` if a label is no class."""
    outside = labels[(labels < 0) | (labels >= classes)]
    if outside.size:
        raise IndexRangeError.of(op.mnemonic, "labels", int(outside[0]), (0, classes - 1))


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


@op("check_labels")
class CheckLabels(Op):
    """The labels unchanged, checked to be from 0 to below `classes`."""

    inplace = ("labels",)
    classes: int

    def infer(self, labels: TensorType) -> TensorType:
        """The operand's own type."""
        require_integer(labels=labels)
        require(self.classes >= 1, f"there must be a class at least, got {self.classes}")
        return labels

    def evaluate(self, labels: Array) -> Array:
        """The operand: whoever runs the op checks it."""
        return np.array(labels)

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """From the first class to the last."""
        return {"labels": (IndexRange.counts(self.classes - 1),)}

    def lower(self, b: Builder, labels: Value) -> Value:
        """Those below 0 so far below that whoever gathers by them does not count from the end."""
        a = Arithmetic(b, labels)
        below = b.emit(Less(), labels, a.value(0))
        return b.emit(Where(), below, a.sub(labels, self.classes), labels)
