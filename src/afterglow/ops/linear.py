"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from afterglow.graph import Builder, Gradients, Op, Value, op
from afterglow.graph.op import aligned_axis
from afterglow.ops.elementwise import Abs, Div, Equal, Mul, Neg, Sub, Where, scalar
from afterglow.ops.indexing import Gather
from afterglow.ops.movement import Expand, Reshape, Transpose, slice_axis
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.rules import (
    broadcast_shape,
    exact_extent,
    require,
    require_float,
    require_number,
    require_weights,
)
from afterglow.ops.search import ArgMax
from afterglow.types import Array, TensorType

_EXACT_IN_DOUBLE = 2.0**53


def multiply_matrices(lhs: Array, rhs: Array) -> Array:
    """NumPy's matmul; integers, for which NumPy has no fast code, in doubles where they are exact.

    Sums of integers wrap around in their own type.
    """
    if lhs.dtype.kind in "fc":
        return np.matmul(lhs, rhs)
    wide_lhs, wide_rhs = lhs.astype(np.float64), rhs.astype(np.float64)
    if _largest(wide_lhs) * _largest(wide_rhs) * lhs.shape[-1] >= _EXACT_IN_DOUBLE:
        return np.matmul(lhs, rhs)
    return np.matmul(wide_lhs, wide_rhs).astype(np.int64).astype(lhs.dtype)


def _largest(x: Array) -> float:
    return float(np.abs(x).max(initial=0.0))


@op("matmul")
class MatMul(Op):
    """Matrix product over the last two axes, either operand transposed; other axes broadcast.

    Integers are summed in their own type and wrap around. Where lhs holds f32, rhs may be f16 or
    bf16: its numbers are multiplied in f32.
    """

    transpose_lhs: bool = False
    transpose_rhs: bool = False

    def infer(self, lhs: TensorType, rhs: TensorType) -> TensorType:
        """The broadcast batch axes, then rows of lhs and columns of rhs."""
        require_number(lhs=lhs, rhs=rhs)
        require_weights(lhs=lhs, rhs=rhs)
        for name, operand in (("lhs", lhs), ("rhs", rhs)):
            require(operand.rank >= 2, f"{name} must have two axes or more, got {operand}")
        rows, inner = _transposed(lhs.shape[-2:], self.transpose_lhs)
        other, columns = _transposed(rhs.shape[-2:], self.transpose_rhs)
        require(inner == other, f"columns of lhs and rows of rhs must agree, got {lhs} and {rhs}")
        batch = broadcast_shape(
            lhs=lhs.with_shape(lhs.shape[:-2]), rhs=rhs.with_shape(rhs.shape[:-2])
        )
        return TensorType(lhs.dtype, (*batch, rows, columns))

    def evaluate(self, lhs: Array, rhs: Array) -> Array:
        """NumPy's matmul."""
        return multiply_matrices(
            lhs.swapaxes(-1, -2) if self.transpose_lhs else lhs,
            rhs.swapaxes(-1, -2) if self.transpose_rhs else rhs,
        )

    def gradient(self, b: Builder, out: Value, grad: Value, lhs: Value, rhs: Value) -> Gradients:
        """To each, times the transpose of the other; their batches are summed by whoever asks."""
        flip, turn = self.transpose_lhs, self.transpose_rhs
        if flip:
            left = b.emit(MatMul(turn, True), rhs, grad)
        else:
            left = b.emit(MatMul(False, not turn), grad, rhs)
        if rhs.type.rank == 2 and not flip:  # one product of all rows, instead of a sum of many
            lhs, grad = _all_rows(b, lhs), _all_rows(b, grad)
        if turn:
            right = b.emit(MatMul(True, flip), grad, lhs)
        else:
            right = b.emit(MatMul(not flip, False), lhs, grad)
        return left, right

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Rows follow lhs, columns follow rhs, batch axes both."""
        lhs, rhs = self.required_of(operands)
        if axis == result.rank - 2:
            return lhs.rank - (1 if self.transpose_lhs else 2), None
        if axis == result.rank - 1:
            return None, rhs.rank - (2 if self.transpose_rhs else 1)
        return aligned_axis(axis, result, lhs), aligned_axis(axis, result, rhs)

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications."""
        lhs = self.required_of(operands)[0]
        return result.size * lhs.shape[-2 if self.transpose_lhs else -1]

    def weight_uses(self, operands: Sequence[TensorType | None]) -> Mapping[str, int]:
        """An element of rhs meets every row of lhs, and of further batches if it is repeated."""
        lhs, rhs = self.required_of(operands)
        result = self.infer(lhs, rhs)
        return {"rhs": self.work(result, operands) // max(rhs.size, 1)}

    def permuted(self, perm: tuple[int, ...]) -> Op | None:
        """Only batch axes may change places."""
        last = len(perm) - 1
        return self if perm[-2:] == (last - 1, last) else None


def _all_rows(b: Builder, x: Value) -> Value:
    """The rows of all batches as one matrix."""
    *rows, columns = x.type.shape
    return x if len(rows) == 1 else b.emit(Reshape((math.prod(rows), columns)), x)


def _transposed(extents: tuple[int, ...], transposed: bool) -> tuple[int, int]:
    rows, columns = extents
    return (columns, rows) if transposed else (rows, columns)


@op("det")
class Det(Op):
    """The determinant of each square matrix in the last two axes."""

    def infer(self, x: TensorType) -> TensorType:
        """The axes before the last two."""
        require_float(x=x)
        square = x.rank >= 2 and x.shape[-1] == x.shape[-2]
        require(square, f"the last two axes of x must be equal, got {x}")
        return x.with_shape(x.shape[:-2])

    def evaluate(self, x: Array) -> Array:
        """NumPy's determinant."""
        return np.asarray(np.linalg.det(x))

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Times the cofactors, which singular matrices have as well: determinants of minors."""
        size, rank = x.type.shape[-1], x.type.rank
        others = np.array([[i for i in range(size) if i != left] for left in range(size)], np.int64)
        left_out = b.constant(others.reshape(size, size - 1), "others")
        columns = b.emit(Gather(rank - 1), x, left_out)
        minors = b.emit(Gather(rank - 2), columns, left_out)
        perm = (*range(rank - 1), rank, rank - 1, rank + 1)
        dets = b.emit(Det(), b.emit(Transpose(perm), minors))
        signs = (-1.0) ** np.add.outer(np.arange(size), np.arange(size))
        cofactors = b.emit(Mul(), dets, b.constant(signs.astype(x.type.dtype.numpy), "signs"))
        return (b.emit(Mul(), cofactors, b.emit(Reshape((*grad.type.shape, 1, 1)), grad)),)

    def lower(self, b: Builder, x: Value) -> Value:
        """The product of the pivots of an elimination."""
        shape = x.type.shape[:-2]
        product = b.emit(Expand(shape), scalar(b, 1, x))
        for _ in range(exact_extent(x.type.shape[-1], "how many pivots there are")):
            pivot, x = _eliminate(b, x)
            product = b.emit(Mul(), product, b.emit(Reshape(shape), pivot))
        return product


def _eliminate(b: Builder, x: Value) -> tuple[Value, Value]:
    """Take the row with the largest first element out of x [..., n, n].

    Returns that element, negated if rows changed places, and [..., n - 1, n - 1]: the other rows
    less what makes their first elements zero.
    """
    rank, size = x.type.rank, x.type.shape[-1]
    zero, one = scalar(b, 0, x), scalar(b, 1, x)
    column = b.emit(slice_axis(x.type, rank - 1, 0, 1), x)
    place = b.emit(ArgMax(rank - 2), b.emit(Abs(), column))
    here = b.emit(Equal(), b.constant(np.arange(size).reshape(-1, 1), "rows"), place)
    row = b.emit(ReduceSum((rank - 2,)), b.emit(Where(), here, x, zero))
    swapped = b.emit(Where(), here, b.emit(slice_axis(x.type, rank - 2, 0, 1), x), x)
    others = b.emit(slice_axis(x.type, rank - 2, 1, size - 1), swapped)
    pivot, row = _split_columns(b, row)
    firsts, others = _split_columns(b, others)
    divisor = b.emit(Where(), b.emit(Equal(), pivot, zero), one, pivot)
    rest = b.emit(Sub(), others, b.emit(Mul(), b.emit(Div(), firsts, divisor), row))
    stayed = b.emit(Equal(), place, scalar(b, 0, place))
    return b.emit(Where(), stayed, pivot, b.emit(Neg(), pivot)), rest


def _split_columns(b: Builder, x: Value) -> tuple[Value, Value]:
    """The first column, and the others."""
    axis, extent = x.type.rank - 1, x.type.shape[-1]
    first = b.emit(slice_axis(x.type, axis, 0, 1), x)
    return first, b.emit(slice_axis(x.type, axis, 1, extent - 1), x)
