"""Products with, and look-ups in, a matrix of reals that is stored in few bits, with scales.

The matrix [rows, depth] is (stored - zero_point) scale + minimum: what `dequantize_linear` makes of
`stored`, plus the minimum. It has one scale for each row, or (with `block_size`) one for that many
neighbours along the depth; zero points and minimums likewise. What is stored are integers, or
finite floats of 8 bits, which have no zero points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum

import numpy as np

from afterglow.graph import Builder, Op, Value, op
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape
from afterglow.ops.quantization import DequantizeLinear
from afterglow.ops.rounded_rows import ROUNDED_BLOCK, emit_rounded_rows, round_rows
from afterglow.ops.rules import (
    require,
    require_float,
    require_rank,
    require_shape,
)
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, IndexRanges, TensorType
from afterglow.types.dtype import f8e4m3fn, f8e5m2, f32, i4, i8, u4, u8

STORED_TYPES = (i8, u8, i4, u4, f8e4m3fn, f8e5m2)
"""The numbers that a matrix may be stored as."""


class Activations(Enum):
    """What the other factor of a product with a stored matrix is multiplied as."""

    FLOAT32 = "float32"
    INT8 = "int8"
    """Rounded to 8 bits in blocks of its rows, see `rounded_rows`."""


@dataclass(frozen=True, repr=False)
class StoredMatrix(Op):
    """Base: a matrix stored as integers, or floats of 8 bits, with scales.

    Where `bits` is not 0, all numbers of the matrix fit in that many bits: those of u8 are less
    than 2 ** bits, those of i8 at least -2 ** (bits - 1) and less than 2 ** (bits - 1).
    """

    block_size: int = 0
    bits: int = 0

    @property
    def dequantize(self) -> DequantizeLinear:
        """The op that computes the matrix, less its minimums."""
        return DequantizeLinear(1 if self.block_size else 0, block_size=self.block_size)

    def check_matrix(
        self,
        stored: TensorType,
        scale: TensorType,
        zero_point: TensorType | None,
        minimum: TensorType | None,
    ) -> None:
        """It is a matrix of few bits, and not all of it shares a scale."""
        require_rank(2, stored=stored)
        require(
            stored.dtype in STORED_TYPES,
            f"stored must hold {', '.join(map(str, STORED_TYPES))}, got {stored}",
        )
        require(
            not stored.dtype.is_float or (zero_point is None and not self.bits),
            f"floats of 8 bits have no zero points and need all bits, got {stored}",
        )
        require(
            0 <= self.bits <= stored.dtype.bits,
            f"bits must be at most those of {stored.dtype}, got {self.bits}",
        )
        require(scale.rank > 0, f"scale must have one for each row at least, got {scale}")
        require(scale.dtype.bits <= f32.bits, f"scale must hold f32 or less, got {scale}")
        self.dequantize.infer(stored, scale, zero_point)
        if minimum is not None:
            require_float(minimum=minimum)
            require(minimum.dtype.bits <= f32.bits, f"minimum must hold f32 or less, got {minimum}")
            require_shape(scale.shape, minimum=minimum)


def _evaluate_matrix(
    op: DequantizeLinear,
    stored: Array,
    scale: Array,
    zero_point: Array | None,
    minimum: Array | None,
) -> Array:
    """What the op makes of a matrix, plus the minimums."""
    matrix = op.evaluate(stored, scale, zero_point)
    if minimum is None:
        return matrix
    return matrix + op.spread(stored, minimum).astype(matrix.dtype)


def _emit_matrix(
    b: Builder,
    op: DequantizeLinear,
    stored: Value,
    scale: Value,
    zero_point: Value | None,
    minimum: Value | None,
) -> Value:
    """As `_evaluate_matrix`."""
    matrix = b.emit(op, stored, scale, zero_point)
    if minimum is None:
        return matrix
    return b.emit(Add(), matrix, op.emit_spread(b, stored, minimum))


@op("stored_matmul")
class StoredMatMul(StoredMatrix):
    """Product of lhs [..., depth] with the transpose of a matrix stored in few bits."""

    activations: Activations = Activations.FLOAT32
    row_block: int = ROUNDED_BLOCK
    """Neighbours of a row of lhs that share a scale where rows are rounded."""

    def infer(
        self,
        lhs: TensorType,
        stored: TensorType,
        scale: TensorType,
        zero_point: TensorType | None = None,
        minimum: TensorType | None = None,
    ) -> TensorType:
        """The shape of lhs, with the rows of the matrix last."""
        self.check_matrix(stored, scale, zero_point, minimum)
        require_float(lhs=lhs)
        require(16 <= lhs.dtype.bits <= 32, f"lhs must hold floats of 16 or 32 bits, got {lhs}")
        require(
            self.row_block > 0 and self.row_block % ROUNDED_BLOCK == 0,
            f"row_block must be a multiple of {ROUNDED_BLOCK}, got {self.row_block}",
        )
        return MatMul(transpose_rhs=True).infer(lhs, stored.with_dtype(lhs.dtype))

    def evaluate(
        self,
        lhs: Array,
        stored: Array,
        scale: Array,
        zero_point: Array | None = None,
        minimum: Array | None = None,
    ) -> Array:
        """The product with the dequantized matrix, in f32."""
        matrix = _evaluate_matrix(self.dequantize, stored, scale, zero_point, minimum)
        rows = lhs.astype(np.float32)
        if self.activations is Activations.INT8:
            rows = round_rows(rows, self.row_block)
        return MatMul(transpose_rhs=True).evaluate(rows, matrix).astype(lhs.dtype)

    def lower(
        self,
        b: Builder,
        lhs: Value,
        stored: Value,
        scale: Value,
        zero_point: Value | None = None,
        minimum: Value | None = None,
    ) -> Value:
        """The product of f32, then that of rows that are rounded already, then as `evaluate`."""
        parts = (stored, scale, zero_point, minimum)
        if lhs.type.dtype is not f32:
            return b.emit(Cast(lhs.type.dtype), b.emit(self, _as_single(b, lhs), *parts))
        if self.activations is Activations.INT8:
            rounded = emit_rounded_rows(b, lhs, self.row_block)
            return b.emit(replace(self, activations=Activations.FLOAT32), rounded, *parts)
        shared = _as_single(b, scale), zero_point, minimum and _as_single(b, minimum)
        matrix = _emit_matrix(b, self.dequantize, stored, *shared)
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
    """Rows, selected by indices, of a matrix stored in few bits."""

    def infer(
        self,
        indices: TensorType,
        stored: TensorType,
        scale: TensorType,
        zero_point: TensorType | None = None,
        minimum: TensorType | None = None,
    ) -> TensorType:
        """The shape of the indices, then the depth."""
        self.check_matrix(stored, scale, zero_point, minimum)
        return Gather(0).infer(stored.with_dtype(f32), indices)

    def evaluate(
        self,
        indices: Array,
        stored: Array,
        scale: Array,
        zero_point: Array | None = None,
        minimum: Array | None = None,
    ) -> Array:
        """The rows are taken first."""
        places, shape = indices.astype("int64"), (*indices.shape, -1)

        def taken(part: Array | None) -> Array | None:
            return None if part is None else part[places].reshape(shape)

        op = self._for_rows(stored.shape[1], indices.ndim)
        shared = scale[places].reshape(shape), taken(zero_point), taken(minimum)
        return _evaluate_matrix(op, stored[places], *shared)

    def lower(
        self,
        b: Builder,
        indices: Value,
        stored: Value,
        scale: Value,
        zero_point: Value | None = None,
        minimum: Value | None = None,
    ) -> Value:
        """As `evaluate`."""

        def taken(part: Value) -> Value:
            rows = b.emit(Gather(0), part, indices)
            return rows if self.block_size else b.emit(Reshape((*indices.type.shape, 1)), rows)

        op = self._for_rows(stored.type.shape[1], indices.type.rank)
        rows, scales = b.emit(Gather(0), stored, indices), taken(_as_single(b, scale))
        zeros = None if zero_point is None else taken(zero_point)
        least = None if minimum is None else taken(_as_single(b, minimum))
        return _emit_matrix(b, op, rows, scales, zeros, least)

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


def _as_single(b: Builder, x: Value) -> Value:
    """Rows, scales or minimums as f32, the type of the matrix, which is what most engines take."""
    return x if x.type.dtype is f32 else b.emit(Cast(f32), x)
