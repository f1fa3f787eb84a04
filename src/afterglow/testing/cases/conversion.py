"""Cases of afterglow.ops.conversion."""

from __future__ import annotations

import numpy as np

from afterglow.ops.conversion import Cast, PowerRounding
from afterglow.testing.cases.case import (
    bf16,
    boolean,
    c64,
    case,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    string,
    tensor,
    u8,
)
from afterglow.types import dtype as dtypes

_EDGES = np.array([0.0, -0.0, 1.5, -1.5, 1e6, -1e6, np.inf, -np.inf, np.nan, 1e-9], np.float32)
_POSITIVE = np.array([0.0, 0.124, 0.25, 1.1, 3.0, 1e-45, np.inf, np.nan], np.float32)
_TEXTS = np.array(["1.5", "-INF", "NaN", "1e3", "7"], object)
_NUMBERS = [t for t in dtypes.DTYPES.values() if t.is_number]
_NARROW = (dtypes.i2, dtypes.i4, dtypes.u2, dtypes.u4)

CASES = [
    *(case(Cast(t), f32(2, 3), low=0) for t in dtypes.DTYPES.values()),
    *(case(Cast(t), i32(5), low=0) for t in dtypes.DTYPES.values()),
    *(case(Cast(t), boolean(5)) for t in _NUMBERS),
    *(case(Cast(dtypes.f32), tensor(t)(2, 3), low=0) for t in _NUMBERS if "c" not in t.name),
    *(
        case(Cast(t, saturate), f32(10), given={0: _EDGES})
        for t in (dtypes.f8e4m3fn, dtypes.f8e4m3fnuz, dtypes.f8e5m2, dtypes.f8e5m2fnuz)
        for saturate in (True, False)
    ),
    *(
        case(Cast(dtypes.f8e8m0, saturate, mode), f32(8), given={0: _POSITIVE})
        for saturate in (True, False)
        for mode in PowerRounding
    ),
    *(case(Cast(t), f32(10), given={0: _EDGES}) for t in (dtypes.f16, dtypes.boolean)),
    case(Cast(dtypes.f32), string(5), given={0: _TEXTS}),
    case(Cast(dtypes.i64), string(2), given={0: np.array(["12", "-3.7"], object)}),
    case(Cast(dtypes.string), i64()),
    case(Cast(dtypes.string), string(3)),
    case(Cast(dtypes.i8), i32(5), low=-300, high=300),
    case(Cast(dtypes.i32), f64(0, 3)),
    case(Cast(dtypes.f32), f16()),
    case(Cast(dtypes.c128), c64(3)),
    case(Cast(dtypes.bf16), f16(4)),
    case(Cast(dtypes.f16), bf16(4)),
    case(Cast(dtypes.u8), i8(4)),
    case(Cast(dtypes.i8), u8(4), high=255),
    *(case(Cast(to), tensor(t)(5), low=-8, high=7) for t in _NARROW for to in _NARROW),
]
