"""Recognise products with, and look-ups in, matrices that are stored in few bits, with scales."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.quantization import DequantizeLinear
from afterglow.ops.stored import STORED_TYPES, StoredGather, StoredMatMul
from afterglow.passes import RewritePass, rewrite
from afterglow.types.dtype import bf16, f16, f32

LEAST_SIZE = 1 << 14
"""Matrices with fewer elements are left as they are: as floats they fit in a cache, too."""

ROW_TYPES = (f32, f16, bf16)
"""What the other factor of a product may hold."""


@rewrite(MatMul)
def recognise_stored_matmul(node: Node, b: Builder) -> Value | None:
    """matmul(x, dequantize(c))  ->  stored_matmul(x, c),  c a constant matrix."""
    match node:
        case Node(
            MatMul(transpose_lhs=False) as op,
            [
                Value() as x,
                Value(
                    Node(
                        DequantizeLinear(dtype=dtype) as dequantize,
                        [Constant() as stored, Constant() as scale, *rest],
                    )
                ),
            ],
        ) if dtype is x.type.dtype and dtype in ROW_TYPES and _is_large_matrix(stored):
            zero = _zero_point(stored, rest)
            depth = 1 if op.transpose_rhs else 0
            if isinstance(zero, Constant | None) and _fits(dequantize, stored, scale, zero, depth):
                rows = stored.type.shape[1 - depth]
                parts = [_by_rows(b, part, rows, depth) for part in (stored, scale, zero)]
                return b.emit(StoredMatMul(dequantize.block_size), x, *parts)
    return None


@rewrite(DequantizeLinear)
def recognise_stored_gather(node: Node, b: Builder) -> Value | None:
    """dequantize(gather(c, i), gather(scale, i))  ->  stored_gather(i, c, scale)."""
    match node:
        case Node(
            DequantizeLinear(axis, dtype, size),
            [
                Value(Node(Gather(0), [Constant() as stored, Value() as indices])) as rows,
                Value(Node(Gather(0), [Constant() as scale, Value() as others])),
                *rest,
            ],
        ) if size and dtype is f32 and others is indices and _is_large_matrix(stored):
            if axis % rows.type.rank != rows.type.rank - 1:
                return None
            match rest:
                case []:
                    return b.emit(StoredGather(size), indices, stored, scale)
                case [Value(Node(Gather(0), [Constant() as zero, Value() as more]))]:
                    if more is indices and not stored.type.dtype.is_float:
                        return b.emit(StoredGather(size), indices, stored, scale, zero)
    return None


def _is_large_matrix(stored: Constant) -> bool:
    type = stored.type
    if type.rank != 2 or type.dtype not in STORED_TYPES or type.size < LEAST_SIZE:
        return False
    return not type.dtype.is_float or bool(np.isfinite(stored.data.astype(np.float32)).all())


def _zero_point(stored: Constant, rest: Sequence[Value | None]) -> Value | None:
    """The zero point of a matrix, if there is one; that of floats is zero."""
    zero = rest[0] if rest else None
    if stored.type.dtype.is_float and isinstance(zero, Constant) and not zero.data.any():
        return None
    return zero


def _fits(
    op: DequantizeLinear, stored: Constant, scale: Constant, zero: Constant | None, depth: int
) -> bool:
    """Whether there are scales for blocks along the depth, for each row, or one for all."""
    if stored.type.dtype.is_float and zero is not None:
        return False
    if op.block_size:
        return op.axis % 2 == depth
    return scale.type.rank == 0 or op.axis % 2 != depth


def _by_rows(b: Builder, part: Constant | None, rows: int, depth: int) -> Constant | None:
    """A part of a matrix with its depth last, or one for each row."""
    if part is None or part.type.rank == 1 or (part.type.rank == 2 and depth == 1):
        return part
    data = part.data.T if part.type.rank else np.full(rows, part.data)
    return b.constant(np.ascontiguousarray(data), part.name)


RECOGNISE_STORED = RewritePass(
    "recognise-stored", (recognise_stored_matmul, recognise_stored_gather)
)
