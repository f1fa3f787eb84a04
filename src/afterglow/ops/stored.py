"""Products with, and look-ups in, a matrix of reals that is stored as integers with scales.

The matrix [rows, depth] is what `dequantize_linear` makes of `stored`: it has one scale for each
row, or (with `block_size`) one for that many neighbours along the depth; zero points likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape
from afterglow.ops.quantization import DequantizeLinear
from afterglow.ops.rules import require, require_dtype, require_rank
from afterglow.types import Array, IndexRanges, TensorType
from afterglow.types.dtype import f32, i4, i8, u4, u8

STORED_TYPES = (i8, u8, i4, u4)
"""The integers that a matrix may be stored as."""


@dataclass(frozen=True, repr=False)
class StoredMatrix(Op):
    """Base: a matrix stored as integers with scales."""

    block_size: int = 0

    @property
    def dequantize(self) -> DequantizeLinear:
        """The op that computes the matrix."""
        return DequantizeLinear(1 if self.block_size else 0, block_size=self.block_size)

    def check_matrix(
        self, stored: TensorType, scale: TensorType, zero_point: TensorType | None
    ) -> None:
        """It is a matrix of few bits, and not all of it shares a scale."""
        require_rank(2, stored=stored)
        require(stored.dtype in STORED_TYPES, f"stored must hold bytes or 4 bits, got {stored}")
        require(scale.rank > 0, f"scale must have one for each row at least, got {scale}")
        require(scale.dtype.bits <= f32.bits, f"scale must hold f32 or less, got {scale}")
        self.dequantize.infer(stored, scale, zero_point)


@op("stored_matmul")
class StoredMatMul(StoredMatrix):
    """Product of lhs [..., depth] with the transpose of a matrix stored as integers with scales."""

    def infer(
        self,
        lhs: TensorType,
        stored: TensorType,
        scale: TensorType,
        zero_point: TensorType | None = None,
    ) -> TensorType:
        """The shape of lhs, with the rows of the matrix last."""
        self.check_matrix(stored, scale, zero_point)
        require_dtype(f32, lhs=lhs)
        return MatMul(transpose_rhs=True).infer(lhs, stored.with_dtype(f32))

    def evaluate(
        self, lhs: Array, stored: Array, scale: Array, zero_point: Array | None = None
    ) -> Array:
        """The product with the dequantized matrix."""
        matrix = self.dequantize.evaluate(stored, scale, zero_point)
        return MatMul(transpose_rhs=True).evaluate(lhs, matrix)

    def lower(
        self, b: Builder, lhs: Value, stored: Value, scale: Value, zero_point: Value | None = None
    ) -> Value:
        """As `evaluate`."""
        matrix = b.emit(self.dequantize, stored, _as_single(b, scale), zero_point)
        return b.emit(MatMul(transpose_rhs=True), lhs, matrix)

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...]:
        """Columns follow the rows of the matrix, other axes lhs."""
        if axis == result.rank - 1:
            return (None, *(None if part is None else 0 for part in operands[1:]))
        return (axis, *(None for _ in operands[1:]))

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications."""
        return result.size * self.required_of(operands)[0].shape[-1]


@op("stored_gather")
class StoredGather(StoredMatrix):
    """Rows, selected by indices, of a matrix stored as integers with scales."""

    def infer(
        self,
        indices: TensorType,
        stored: TensorType,
        scale: TensorType,
        zero_point: TensorType | None = None,
    ) -> TensorType:
        """The shape of the indices, then the depth."""
        self.check_matrix(stored, scale, zero_point)
        return Gather(0).infer(stored.with_dtype(f32), indices)

    def evaluate(
        self, indices: Array, stored: Array, scale: Array, zero_point: Array | None = None
    ) -> Array:
        """The rows are taken first."""
        places, shape = indices.astype("int64"), (*indices.shape, -1)
        zeros = None if zero_point is None else zero_point[places].reshape(shape)
        op = self._for_rows(stored.shape[1], indices.ndim)
        return op.evaluate(stored[places], scale[places].reshape(shape), zeros)

    def lower(
        self,
        b: Builder,
        indices: Value,
        stored: Value,
        scale: Value,
        zero_point: Value | None = None,
    ) -> Value:
        """As `evaluate`."""

        def taken(part: Value | None) -> Value | None:
            return None if part is None else b.emit(Gather(0), part, indices)

        rows, *shared = taken(stored), taken(_as_single(b, scale)), taken(zero_point)
        if not self.block_size:
            shape = (*indices.type.shape, 1)
            shared = [part and b.emit(Reshape(shape), part) for part in shared]
        return b.emit(self._for_rows(stored.type.shape[1], indices.type.rank), rows, *shared)

    def _for_rows(self, depth: int, axis: int) -> DequantizeLinear:
        """The op that computes rows; their only scale is that of a block that is the whole row."""
        return DequantizeLinear(axis, block_size=self.block_size or depth)

    def index_ranges(self, operands: Sequence[TensorType | None]) -> Mapping[str, IndexRanges]:
        """Rows of the matrix."""
        indices, stored, *_ = self.required_of(operands)
        return {"indices": Gather(0).index_ranges((stored, indices))["indices"]}

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Every index on its own."""
        if axis == result.rank - 1:
            return None
        return (axis, *(None for _ in operands[1:]))


def _as_single(b: Builder, scale: Value) -> Value:
    """Scales of the type of the matrix, which is what most engines take."""
    return scale if scale.type.dtype is f32 else b.emit(Cast(f32), scale)
