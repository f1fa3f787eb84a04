"""Cases of afterglow.ops.stored."""

from __future__ import annotations

import math

import numpy as np

from afterglow.ops.stored import StoredGather, StoredMatMul, StoredMatrix
from afterglow.testing.cases.case import Case, bf16, case, f32, i8, i32, i64, tensor, u8
from afterglow.types import TensorType
from afterglow.types import dtype as d

i4, u4 = tensor(d.i4), tensor(d.u4)


def _case(op: StoredMatrix, first: TensorType, stored: TensorType, *rest: TensorType) -> Case:
    """A case with numbers of all sizes, ordinary scales, and indices of rows."""
    rng = np.random.default_rng(stored.size)
    low, high = stored.dtype.limits
    scale = np.linspace(1e-3, 1e-2, math.prod(rest[0].shape)).reshape(rest[0].shape)
    given = {
        1: rng.integers(low, high + 1, stored.shape).astype(stored.dtype.numpy),
        2: scale.astype(rest[0].dtype.numpy),
    }
    if len(rest) > 1:
        given[3] = rng.integers(low, high + 1, rest[1].shape).astype(rest[1].dtype.numpy)
    if isinstance(op, StoredGather):
        given[0] = rng.integers(-stored.shape[0], stored.shape[0], first.shape).astype(
            first.dtype.numpy
        )
    return case(op, first, stored, *rest, given=given, tolerance=1e-4)


CASES = [
    _case(StoredMatMul(), f32(3, 20), i8(7, 20), f32(7)),
    _case(StoredMatMul(), f32(2, 5, 9), u8(40, 9), f32(40), u8(40)),
    _case(StoredMatMul(16), f32(1, 40), u4(33, 40), bf16(33, 3), u4(33, 3)),
    _case(StoredMatMul(32), f32(6, 70), i4(20, 70), f32(20, 3)),
    _case(StoredMatMul(3), f32(2, 10), u4(5, 10), f32(5, 4), u4(5, 4)),
    _case(StoredGather(), i64(4), i8(9, 21), f32(9), i8(9)),
    _case(StoredGather(16), i32(2, 3), u4(70, 40), bf16(70, 3), u4(70, 3)),
    _case(StoredGather(8), i64(), i4(6, 13), f32(6, 2)),
]
