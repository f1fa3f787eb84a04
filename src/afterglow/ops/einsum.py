"""Sums of products after Einstein's convention."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.elementwise import Mul
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose, slice_axis
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.rules import require, require_number, require_same_dtype
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType

Labels = tuple[str, ...]


@op("einsum")
class Einsum(Op):
    """Einstein summation: `bij,bjk->bik` is a batched matrix product.

    Indices that the result lacks are summed over. `...` stands for the remaining axes, which
    broadcast. Without `->` the result has the letters that occur once, in alphabetical order.
    """

    equation: str

    def infer(self, *operands: TensorType) -> TensorType:
        """One axis for each letter of the result."""
        named = {f"operand {i}": type for i, type in enumerate(operands)}
        require(bool(named), "takes at least one operand")
        require_number(**named)
        dtype = require_same_dtype(**named)
        labels, result = self.labels([type.rank for type in operands])
        extents = _extents(labels, [type.shape for type in operands])
        missing = sorted({*result} - {*extents})
        require(not missing, f"{missing} is in the result of {self.equation!r} only")
        require(len({*result}) == len(result), f"{self.equation!r} repeats a letter in the result")
        return TensorType(dtype, tuple(extents[label] for label in result))

    def evaluate(self, *operands: Array) -> Array:
        """NumPy's einsum."""
        return np.asarray(np.einsum(self.equation, *operands, optimize=True), operands[0].dtype)

    def lower(self, b: Builder, *operands: Value) -> Value:
        """Products of two operands at a time, of their diagonals where they repeat a letter."""
        labels, result = self.labels([value.type.rank for value in operands])
        extents = _extents(labels, [value.type.shape for value in operands])
        terms = [
            Term(value, own).diagonal(b).without_repeats(b, extents)
            for value, own in zip(operands, labels, strict=True)
        ]
        occurrences = Counter(label for term in terms for label in term.labels)
        alone = {label for label, count in occurrences.items() if count == 1} - {*result}
        product, *others = (term.summed(b, alone) for term in terms)
        for i, other in enumerate(others):
            kept = {*result}.union(*(later.labels for later in others[i + 1 :]))
            product = multiply(b, product, other, kept)
        return product.ordered(b, result).value

    def labels(self, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
        """The label of each axis of operands of these ranks, and of the result.

        Axes under `...` are labelled by digits, counted from the last.
        """
        inputs, arrow, output = self.equation.replace(" ", "").partition("->")
        parts = inputs.split(",")
        require(
            len(parts) == len(ranks),
            f"{self.equation!r} is for {len(parts)} operands, got {len(ranks)}",
        )
        labels = [_spread(part, rank) for part, rank in zip(parts, ranks, strict=True)]
        unnamed = max((sum(map(str.isdigit, own)) for own in labels), default=0)
        if not arrow:
            counts = Counter(letter for part in parts for letter in part if letter != ".")
            output = "..." + "".join(sorted(c for c, count in counts.items() if count == 1))
        lettered = len(output.replace("...", ""))
        return labels, _spread(output, lettered + (unnamed if "..." in output else 0))


def _spread(part: str, rank: int) -> Labels:
    """The labels of one operand: those under `...` become digits."""
    head, dots, tail = part.partition("...")
    unnamed = rank - len(head) - len(tail)
    require(
        not head + tail or ((head + tail).isascii() and (head + tail).isalpha()),
        f"indices must be letters from a to z or A to Z, got {part!r}",
    )
    require(unnamed == 0 or (unnamed > 0 and bool(dots)), f"{part!r} does not name {rank} axes")
    return (*head, *(str(i) for i in reversed(range(unnamed))), *tail)


def _extents(labels: Sequence[Labels], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The extent of each label: the one that is not 1, if any; within an operand all are equal."""
    found: dict[str, int] = {}
    for own, shape in zip(labels, shapes, strict=True):
        alone: dict[str, int] = {}
        for label, extent in zip(own, shape, strict=True):
            first = alone.setdefault(label, extent)
            require(
                first == extent,
                f"one operand repeats index {label!r}, with extents {first} and {extent}",
            )
            known = found.setdefault(label, extent)
            require(
                1 in (known, extent) or known == extent,
                f"index {label!r} has extents {known} and {extent}",
            )
            found[label] = extent if known == 1 else known
    return found


@dataclass(frozen=True)
class Term:
    """A factor, its axes named."""

    value: Value
    labels: Labels

    def diagonal(self, b: Builder) -> Term:
        """Merge axes that have one label: what lies where their indices are equal."""
        label = next((label for label, count in Counter(self.labels).items() if count > 1), None)
        if label is None:
            return self
        first, second = [axis for axis, own in enumerate(self.labels) if own == label][:2]
        others = [axis for axis in range(len(self.labels)) if axis not in (first, second)]
        extent, shape = self.extents[label], self.value.type.shape
        moved = b.emit(Transpose((*others, first, second)), self.value)
        flat = b.emit(Reshape((*(shape[axis] for axis in others), extent**2)), moved)
        merged = b.emit(slice_axis(flat.type, -1, 0, extent, extent + 1), flat)
        return Term(merged, (*(self.labels[axis] for axis in others), label)).diagonal(b)

    def without_repeats(self, b: Builder, extents: dict[str, int]) -> Term:
        """Drop axes of extent 1 that stand for more: a product broadcasts without them."""
        pairs = zip(self.labels, self.value.type.shape, strict=True)
        labels = tuple(label for label, extent in pairs if extent == extents[label])
        return self if labels == self.labels else self.reshaped(b, labels, extents)

    def summed(self, b: Builder, over: set[str]) -> Term:
        """Sum over the labels that are in `over`."""
        axes = tuple(axis for axis, label in enumerate(self.labels) if label in over)
        if not axes:
            return self
        kept = tuple(label for label in self.labels if label not in over)
        return Term(b.emit(ReduceSum(axes, keepdims=False), self.value), kept)

    def ordered(self, b: Builder, labels: Labels) -> Term:
        """Transpose so that the axes are in this order."""
        if labels == self.labels:
            return self
        perm = tuple(self.labels.index(label) for label in labels)
        return Term(b.emit(Transpose(perm), self.value), labels)

    def reshaped(self, b: Builder, labels: Labels, extents: dict[str, int]) -> Term:
        """Give it axes of these labels; the number of elements must be the same."""
        shape = tuple(extents[label] for label in labels)
        return Term(b.emit(Reshape(shape), self.value), labels)

    def spread(self, b: Builder, labels: Labels) -> Value:
        """The value with axes of extent 1 for those of `labels` that it lacks."""
        if labels == self.labels:
            return self.value
        return b.emit(Reshape(tuple(self.extents.get(label, 1) for label in labels)), self.value)

    @property
    def extents(self) -> dict[str, int]:
        """The extent of each label."""
        return dict(zip(self.labels, self.value.type.shape, strict=True))


def multiply(b: Builder, lhs: Term, rhs: Term, kept: set[str]) -> Term:
    """The product of two terms, summed over what both have and nobody keeps."""
    extents = lhs.extents | rhs.extents
    shared = tuple(label for label in lhs.labels if label in rhs.labels)
    batch = tuple(label for label in shared if label in kept)
    inner = tuple(label for label in shared if label not in kept)
    rows = tuple(label for label in lhs.labels if label not in shared)
    columns = tuple(label for label in rhs.labels if label not in shared)
    labels = batch + rows + columns
    if not inner:
        left = lhs.ordered(b, batch + rows).spread(b, labels)
        right = rhs.ordered(b, batch + columns).spread(b, labels)
        return Term(b.emit(Mul(), left, right), labels)
    left, transpose_lhs = _matrices(b, lhs, batch, rows, inner)
    right, transpose_rhs = _matrices(b, rhs, batch, inner, columns)
    product = b.emit(MatMul(transpose_lhs, transpose_rhs), left, right)
    return Term(product, labels).reshaped(b, labels, extents)


def _matrices(
    b: Builder, term: Term, batch: Labels, rows: Labels, columns: Labels
) -> tuple[Value, bool]:
    """The term as [batch, rows, columns], or transposed if that is how its axes lie."""
    transposed = term.labels == batch + columns + rows
    outer, inner = (columns, rows) if transposed else (rows, columns)
    extents = term.extents
    shape = tuple(math.prod(extents[label] for label in part) for part in (batch, outer, inner))
    return b.emit(Reshape(shape), term.ordered(b, batch + outer + inner).value), transposed
