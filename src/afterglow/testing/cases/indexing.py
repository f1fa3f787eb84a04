"""Cases of afterglow.ops.indexing."""

from __future__ import annotations

import numpy as np

from afterglow.ops.indexing import DynamicSlice, Gather, GatherElements, GatherND, Iota
from afterglow.testing.cases.case import bf16, boolean, case, f32, i8, i32, i64, string, u8
from afterglow.types import dtype as dtypes

_PAIRS = np.array([[[0, 1], [-1, -2]], [[1, 0], [0, 0]]])

CASES = [
    case(Iota((4,), 0, dtypes.i64)),
    case(Iota((2, 3), 1, dtypes.f32)),
    case(Iota((2, 3), -2, dtypes.i8)),
    case(Iota((0, 3), 0, dtypes.f32)),
    case(Gather(0), f32(3, 4), i64(2, 2), low=-3, high=2),
    case(Gather(1), string(3, 4), i32(5), low=-4, high=3),
    case(Gather(-1), bf16(3, 4), u8(2), high=3),
    case(Gather(0), f32(3, 4), i64(), high=2),
    case(Gather(0), f32(0, 4), i64(0)),
    case(Gather(1), f32(2, 3), i64(0)),
    case(DynamicSlice(0, 1), f32(5, 4), i64(), high=4),
    case(DynamicSlice(1, 3), f32(2, 7, 3), i32(), high=4),
    case(DynamicSlice(-1, 3, 2), string(2, 7), i64(), high=2),
    case(DynamicSlice(0, 3, -2), bf16(7, 2), i64(), low=4, high=6),
    case(DynamicSlice(0, 0), f32(3, 2), u8(), high=2),
    case(GatherElements(0), f32(3, 4), i64(5, 4), low=-3, high=2),
    case(GatherElements(1), f32(3, 4, 2), i32(2, 5, 1), low=-4, high=3),
    case(GatherElements(-1), string(2, 3), i64(2, 2), low=-3, high=2),
    case(GatherElements(0), f32(3, 4), i64(0, 4)),
    case(GatherElements(0), bf16(3), i8(2), low=0, high=2),
    case(GatherND(), f32(2, 3), i64(2, 2, 2), given={1: _PAIRS}),
    case(GatherND(), f32(2, 3, 4), i64(2, 2, 2), given={1: _PAIRS}),
    case(GatherND(), string(3, 2), i32(4, 1), low=-3, high=2),
    case(GatherND(1), f32(2, 2, 3), i64(2, 2, 2), given={1: _PAIRS}),
    case(GatherND(2), f32(2, 3, 4, 5), i64(2, 3, 1), low=-4, high=3),
    case(GatherND(), boolean(2, 3), i64(3, 0)),
    case(GatherND(), f32(2, 3), i64(0, 1)),
]
