"""Cases of afterglow.ops.pooling."""

from __future__ import annotations

import numpy as np

from afterglow.ops.pooling import AvgPool, LpPool, MaxPool, MaxPoolGradient, MaxPoolWithIndices
from afterglow.testing.cases.case import case, f16, f32, f64, i8, u8

_THREE = ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1))
_CEIL = ((3, 2), (2, 3), (0, 0, 1, 0), (1, 1), True)
_HOLES = ((2, 2), (1, 1), (0, 1, 1, 0), (3, 2))
_LINE = ((3,), (1,), (1, 1), (1,))
_CUBE = ((2, 2, 2), (2, 1, 2), (0,) * 6, (1, 1, 1))
_ODD = np.array([[[np.nan], [1.0], [-np.inf], [-np.inf], [-np.inf], [2.0], [2.0]]], np.float32)

CASES = [
    *(
        case(pool(*geometry), f32(2, 7, 8, 3))
        for pool in (MaxPool, MaxPoolWithIndices, AvgPool, LpPool)
        for geometry in (_THREE, _CEIL, _HOLES)
    ),
    *(
        case(pool(*_LINE), type(2, 5, 3))
        for pool in (MaxPool, AvgPool, LpPool)
        for type in (f16, f64)
    ),
    *(
        case(pool(*_CUBE), f32(1, 4, 3, 5, 2))
        for pool in (MaxPool, MaxPoolWithIndices, AvgPool, LpPool)
    ),
    *(
        case(pool(*_THREE), type(1, 4, 5, 2), low=-128, high=127)
        for pool in (MaxPool, MaxPoolWithIndices)
        for type in (i8, u8)
    ),
    *(
        case(pool(*_LINE), f32(1, 7, 1), given={0: _ODD})
        for pool in (MaxPool, MaxPoolWithIndices, AvgPool)
    ),
    *(
        case(pool(*_THREE), f32(0, 4, 4, 2))
        for pool in (MaxPool, MaxPoolWithIndices, AvgPool, LpPool)
    ),
    case(MaxPoolGradient(*_THREE), f32(2, 4, 4, 3), f32(2, 7, 8, 3)),
    case(MaxPoolGradient(*_CEIL), f32(2, 4, 3, 3), f32(2, 7, 8, 3)),
    case(MaxPoolGradient(*_HOLES), f32(2, 5, 7, 3), f32(2, 7, 8, 3)),
    case(MaxPoolGradient(*_LINE), f16(2, 5, 3), f16(2, 5, 3)),
    case(MaxPoolGradient(*_CUBE), f64(1, 2, 2, 2, 2), f64(1, 4, 3, 5, 2)),
    case(MaxPoolGradient(*_THREE), f32(0, 2, 2, 2), f32(0, 4, 4, 2)),
    case(MaxPool((3, 3), (1, 1), (0,) * 4, (1, 1)), f32(1, 2, 2, 1)),
    case(AvgPool(*_THREE, count_include_pad=True), f32(1, 5, 6, 2)),
    case(AvgPool(*_CEIL, count_include_pad=True), f32(1, 6, 6, 2)),
    case(LpPool(*_THREE, p=1), f32(1, 5, 6, 2)),
    case(LpPool(*_THREE, p=3), f32(1, 5, 6, 2)),
    case(LpPool(*_THREE, p=9), f32(1, 5, 6, 2)),
]
