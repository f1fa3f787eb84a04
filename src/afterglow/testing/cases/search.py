"""Cases of afterglow.ops.search."""

from __future__ import annotations

import numpy as np

from afterglow.ops.reduction import CumProd, CumSum
from afterglow.ops.search import ArgMax, ArgMin, TopK
from afterglow.testing.cases.case import case, f16, f32, f64, i8, i32, i64, u8

_NAN = np.array([[1, np.nan, 2, np.nan], [np.inf, -np.inf, 0, np.inf]], np.float32)

CASES = [
    case(TopK(k=2, sorted=False), f32(0, 5)),
    case(TopK(2), f32(3, 5)),
    case(TopK(3, axis=0, largest=False), f32(5, 2)),
    case(TopK(4, axis=1), i64(2, 9, 2)),
    case(TopK(3, largest=False), u8(9), high=3),
    case(TopK(3, sorted=False), f32(2, 9)),
    case(TopK(8, sorted=False), f32(2, 9)),
    case(TopK(20, axis=0, largest=False, sorted=False), i64(24, 2), low=-3, high=3),
    case(TopK(0), f32(2, 3)),
    case(TopK(1), f32(0, 3)),
    *(case(TopK(3, largest=largest), f32(2, 4), given={0: _NAN}) for largest in (True, False)),
    *(
        case(op(axis, keepdims, last), i32(3, 4, 2))
        for op in (ArgMax, ArgMin)
        for axis, keepdims, last in ((0, True, False), (1, False, True), (-1, True, True))
    ),
    *(
        case(op(1, last_index=last), f32(2, 4), given={0: _NAN})
        for op in (ArgMax, ArgMin)
        for last in (False, True)
    ),
    *(case(op(0, keepdims=False), f16(5)) for op in (ArgMax, ArgMin)),
    *(case(op(1), f32(0, 3)) for op in (ArgMax, ArgMin)),
    *(
        case(op(axis, exclusive, reverse), f32(3, 4))
        for op in (CumSum, CumProd)
        for axis, exclusive, reverse in (
            (0, False, False),
            (1, True, False),
            (-1, False, True),
            (0, True, True),
        )
    ),
    *(case(op(0, exclusive=True), f64(0, 3)) for op in (CumSum, CumProd)),
    *(case(op(0), i8(9), low=20, high=60) for op in (CumSum, CumProd)),
    *(case(op(0), f16(9)) for op in (CumSum, CumProd)),
]
