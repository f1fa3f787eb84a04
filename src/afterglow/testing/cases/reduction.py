"""Cases of afterglow.ops.reduction."""

from __future__ import annotations

import numpy as np

from afterglow.ops.reduction import ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum
from afterglow.testing.cases.case import boolean, case, f16, f32, f64, i8, i32, i64, tensor, u8, u64
from afterglow.types import dtype as dtypes

_ALL = (ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd)
_NAN = np.array([[1, np.nan, 2], [-np.inf, 3, np.inf]], np.float32)

CASES = [
    *(case(op((1,)), f32(2, 3, 4)) for op in _ALL),
    *(case(op((0, -1), keepdims=False), f32(2, 3, 4)) for op in _ALL),
    *(case(op((0, 1), keepdims=False), i64(2, 3)) for op in _ALL),
    *(case(op(()), f32(2, 3)) for op in _ALL),
    *(case(op((), keepdims=False), f32()) for op in _ALL),
    *(case(op((0,)), f32(0, 3)) for op in _ALL),
    *(case(op((1,)), f32(0, 3)) for op in _ALL),
    *(case(op((1,), keepdims=False), f32(2, 3), given={0: _NAN}) for op in _ALL),
    *(case(op((0,)), f16(40, 3)) for op in _ALL),
    case(ReduceSum((0,)), f64(5)),
    case(ReduceSum((0,)), i8(5), low=100, high=120),
    case(ReduceMean((0,)), i32(4), given={0: np.array([-3, -3, 0, 1], np.int32)}),
    case(ReduceMean((0,)), f16(2000), low=60, high=100),
    *(case(op((0,)), boolean(3, 2)) for op in (ReduceMax, ReduceMin)),
    *(case(op((0,)), boolean(0, 2)) for op in (ReduceMax, ReduceMin)),
    *(case(op((0,)), u8(0, 2)) for op in (ReduceMax, ReduceMin)),
    *(case(op((0,)), i64(0, 2)) for op in (ReduceMax, ReduceMin)),
    *(case(op((0,)), u64(3)) for op in (ReduceMax, ReduceMin)),
    *(
        case(op((0,)), tensor(dtype)(extent, 2), low=0, high=1)
        for op in (ReduceMax, ReduceMin)
        for dtype in (dtypes.i2, dtypes.u4)
        for extent in (0, 3)
    ),
]
