"""Cases of afterglow.ops.stored."""

from __future__ import annotations

import math

import numpy as np

from afterglow.ops.stored import Activations, StoredGather, StoredMatMul, StoredMatrix
from afterglow.testing.cases.case import Case, bf16, case, f16, f32, i8, i32, i64, tensor, u8
from afterglow.types import Array, TensorType
from afterglow.types import dtype as d

i4, u4 = tensor(d.i4), tensor(d.u4)
e4m3, e5m2 = tensor(d.f8e4m3fn), tensor(d.f8e5m2)


def _case(
    op: StoredMatrix,
    first: TensorType,
    stored: TensorType,
    *rest: TensorType | None,
    tolerance: float = 1e-4,
) -> Case:
    """A case with numbers of all sizes, ordinary scales, and indices of rows."""
    rng = np.random.default_rng(stored.size)
    scale_type, zero_type, minimum_type = (*rest, None, None)[:3]
    assert scale_type is not None
    scale = np.linspace(1e-3, 1e-2, math.prod(scale_type.shape)).reshape(scale_type.shape)
    numbers, low, high = _numbers(op, stored, rng)
    given = {
        1: numbers,
        2: scale.astype(scale_type.dtype.numpy),
    }
    if zero_type is not None:
        given[3] = rng.integers(low, high + 1, zero_type.shape).astype(zero_type.dtype.numpy)
    if minimum_type is not None:
        given[4] = (-high * scale).astype(minimum_type.dtype.numpy)
    if isinstance(op, StoredGather):
        given[0] = rng.integers(-stored.shape[0], stored.shape[0], first.shape).astype(
            first.dtype.numpy
        )
    return case(op, first, stored, *rest, given=given, tolerance=tolerance)


def _numbers(
    op: StoredMatrix, stored: TensorType, rng: np.random.Generator
) -> tuple[Array, int, int]:
    """Numbers of all sizes, and the least and the largest integer."""
    if stored.dtype.is_float:
        drawn = rng.standard_normal(stored.shape) * 2.0 ** rng.integers(-9, 5, stored.shape)
        return drawn.astype(stored.dtype.numpy), 0, 0
    low, high = stored.dtype.limits
    if op.bits:
        low, high = low >> (8 - op.bits), high >> (8 - op.bits)
    return rng.integers(low, high + 1, stored.shape).astype(stored.dtype.numpy), low, high


CASES = [
    _case(StoredMatMul(), f32(3, 20), i8(7, 20), f32(7)),
    _case(StoredMatMul(), f32(2, 5, 9), u8(40, 9), f32(40), u8(40)),
    _case(StoredMatMul(16), f32(1, 40), u4(33, 40), bf16(33, 3), u4(33, 3)),
    _case(StoredMatMul(32), f32(6, 70), i4(20, 70), f32(20, 3)),
    _case(StoredMatMul(3), f32(2, 10), u4(5, 10), f32(5, 4), u4(5, 4)),
    _case(StoredMatMul(32), f32(2, 64), u4(9, 64), f16(9, 2), None, f16(9, 2)),
    _case(StoredMatMul(16, bits=6), f32(1, 48), i8(10, 48), f32(10, 3)),
    _case(StoredMatMul(32, bits=5), f32(3, 64), u8(10, 64), f16(10, 2), u8(10, 2), f32(10, 2)),
    _case(StoredMatMul(32, activations=Activations.INT8), f32(1, 96), i4(70, 96), f16(70, 3)),
    _case(StoredMatMul(16, 6, Activations.INT8), f32(2, 3, 64), i8(9, 64), f32(9, 4)),
    _case(StoredMatMul(32, 5, Activations.INT8), f32(4, 96), u8(5, 96), f16(5, 3), None, f16(5, 3)),
    _case(StoredMatMul(32, 0, Activations.INT8, 256), f32(2, 288), i4(5, 288), f32(5, 9)),
    _case(StoredMatMul(activations=Activations.INT8), f32(2, 40), u8(7, 40), f32(7), u8(7), f32(7)),
    _case(StoredMatMul(), f32(2, 40), e4m3(21, 40), f32(21)),
    _case(StoredMatMul(32), f32(1, 70), e5m2(9, 70), f32(9, 3)),
    _case(StoredMatMul(32), f32(7, 64), e4m3(33, 64), f16(33, 2), None, f16(33, 2)),
    _case(StoredMatMul(activations=Activations.INT8), f32(2, 40), e4m3(7, 40), f32(7)),
    _case(StoredMatMul(16), f16(3, 40), u4(33, 40), bf16(33, 3), u4(33, 3), tolerance=1e-2),
    _case(StoredMatMul(), bf16(2, 40), e4m3(7, 40), f32(7), tolerance=1e-2),
    _case(StoredMatMul(32, 4, Activations.INT8), f16(2, 64), i8(7, 64), f16(7, 2), tolerance=1e-2),
    _case(StoredGather(), i64(4), e4m3(9, 21), f32(9)),
    _case(StoredGather(16), i64(3), e5m2(6, 40), f16(6, 3)),
    _case(StoredGather(32, bits=5), i32(4), u8(12, 64), f16(12, 2), None, f16(12, 2)),
    _case(StoredGather(16, bits=6), i32(4), i8(12, 40), f32(12, 3)),
    _case(StoredGather(), i64(2), u4(9, 21), f32(9), None, f32(9)),
    _case(StoredGather(), i64(4), i8(9, 21), f32(9), i8(9)),
    _case(StoredGather(16), i32(2, 3), u4(70, 40), bf16(70, 3), u4(70, 3)),
    _case(StoredGather(8), i64(), i4(6, 13), f32(6, 2)),
]
