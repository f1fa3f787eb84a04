"""Cases of afterglow.ops.optimizer."""

from __future__ import annotations

import numpy as np

from afterglow.ops.optimizer import SGD, Adagrad, Adam, Lion, RMSProp
from afterglow.testing.cases.case import case, f32, f64, i32, i64

_RATE = {2: np.array(0.1, np.float32)}
_FIRST, _THIRD = np.array(1), np.array(3)
_SQUARES = np.linspace(0.5, 4.0, 12, dtype=np.float32).reshape(3, 4)
_W = (f32(3, 4), f32(3, 4), f32())
_TWO = (f64(2), f64(2))

CASES = [
    case(SGD(weight_decay=0.1), *[f64(2)] * 2, f64(), given={2: np.array(0.1)}),
    case(SGD(0.9, 0.0, True, 0.01), *_W, f32(3, 4), given=_RATE),
    case(SGD(0.9, 0.5), *_W, f32(3, 4), i64(), given={**_RATE, 4: _FIRST}),
    case(SGD(0.9, 0.5), *_W, f32(3, 4), i32(), given={**_RATE, 4: _THIRD.astype(np.int32)}),
    case(Adam(), *_W, i64(), *[f32(3, 4)] * 2, given={**_RATE, 3: _FIRST, 5: _SQUARES}),
    case(
        Adam((0.0, 0.9), 1e-3, 0.1, decoupled=True),
        *(*_W, i64(), *[f32(3, 4)] * 2),
        given={**_RATE, 3: _THIRD, 5: _SQUARES},
    ),
    case(Adam(weight_decay=0.1), *_TWO, f64(), i64(), *_TWO, given={3: _THIRD}, low=0.5),
    case(Adagrad(0.5, 1e-3, 0.1), *_W, i64(), f32(3, 4), given={**_RATE, 3: _THIRD, 4: _SQUARES}),
    case(
        RMSProp(0.9, 1e-3, 0.5, weight_decay=0.1),
        *(*_W, *[f32(3, 4)] * 2),
        given={**_RATE, 3: _SQUARES},
    ),
    case(
        RMSProp(0.9, 1e-3, 0.5, centered=True),
        *(*_W, *[f32(3, 4)] * 3),
        given={**_RATE, 3: 9 * _SQUARES},
    ),
    case(RMSProp(centered=True), *_W, f32(3, 4), None, f32(3, 4), given={**_RATE, 3: 9 * _SQUARES}),
    case(Lion((0.5, 0.9), 0.1), *_W, f32(3, 4), given=_RATE),
]
