"""Cases of afterglow.ops.scatter."""

from __future__ import annotations

import numpy as np

from afterglow.ops.indexing import ScatterND, ScatterReduction
from afterglow.ops.scatter import ScatterElements
from afterglow.testing.cases.case import boolean, case, f16, f32, i32, i64, string

_COLUMNS = np.array([[0, 3, -2], [1, 0, 2]])
_ROWS = np.array([[2], [0], [-2]])
_PAIRS = np.array([[0, 1], [-1, -2], [1, 2]])
_COMBINING = tuple(r for r in ScatterReduction if r is not ScatterReduction.NONE)

CASES = [
    case(ScatterElements(1), f32(2, 4), i64(2, 3), f32(2, 3), given={1: _COLUMNS}),
    case(ScatterElements(-1), string(3, 4), i64(2, 3), string(2, 3), given={1: _COLUMNS}),
    case(ScatterElements(0), f16(3), i32(0), f16(0)),
    *(
        case(ScatterElements(0, r), f32(3, 4), i64(5, 4), f32(5, 4), low=-3, high=2)
        for r in _COMBINING
    ),
    case(ScatterND(), f32(3, 4), i64(3, 1), f32(3, 4), given={1: _ROWS}),
    case(ScatterND(), boolean(2, 3), i64(3, 2), boolean(3), given={1: _PAIRS}),
    case(ScatterND(), string(2, 3), i64(3, 2), string(3), given={1: _PAIRS}),
    case(ScatterND(), f32(2, 3), i64(1, 0), f32(1, 2, 3)),
    case(ScatterND(), f32(2, 3), i64(0, 1), f32(0, 3)),
    *(case(ScatterND(r), i32(3), i64(5, 1), i32(5), low=-3, high=2) for r in _COMBINING),
    *(case(ScatterND(r), f16(3, 2), i64(5, 1), f16(5, 2), low=-3, high=2) for r in _COMBINING),
]
