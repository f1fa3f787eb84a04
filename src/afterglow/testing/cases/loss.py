"""Cases of afterglow.ops.loss, afterglow.ops.cross_entropy and afterglow.ops.ctc."""

from __future__ import annotations

import numpy as np

from afterglow.ops.cross_entropy import CrossEntropy, NegativeLogLikelihood
from afterglow.ops.ctc import CTC
from afterglow.ops.loss import L1, MSE, BinaryCrossEntropy, Huber, LossReduction
from afterglow.testing.cases.case import case, f16, f32, f64, i32, i64

_NONE, _SUM = LossReduction.NONE, LossReduction.SUM
_LABELS = np.array([2, 0, -100, 4, 2])
_SPATIAL = np.array([[[0, 1], [2, 7]], [[2, 2], [7, 1]]])
_SHARES = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], np.float32)
_HEAVY = np.array([0.5, 1.0, 2.0], np.float32)
_SIDES = np.array([[0.0, 1.0, 0.3], [1.0, 0.0, 0.8]], np.float32)
_REPEATED = np.array([[1, 1, 2], [3, 2, -1]])
_LENGTHS = {1: _REPEATED, 2: np.array([6, 5]), 3: np.array([3, 2])}
_SEQUENCES = (f32(6, 2, 4), i64(2, 3), i64(2), i64(2))

CASES = [
    case(MSE(), f32(3, 4), f32(3, 4)),
    case(MSE(_NONE), f32(2, 3), f32(2, 3)),
    case(L1(_NONE), f64(5), f64(5)),
    case(Huber(_SUM, 0.5), f64(8), f64(8)),
    case(BinaryCrossEntropy(), f32(2, 3), f32(2, 3), given={1: _SIDES}, low=-30, high=30),
    case(BinaryCrossEntropy(), f32(2, 3), f32(2, 3), f32(3), f32(3), given={1: _SIDES, 3: _HEAVY}),
    case(CrossEntropy(), f32(5, 6), i64(5), given={1: _LABELS}),
    case(CrossEntropy(-1, -100, 0.1), f32(5, 6), i64(5), f32(6), given={1: _LABELS}, low=0.5),
    case(
        CrossEntropy(1, 7, 0.2, _NONE),
        *(f32(2, 3, 2, 2), i32(2, 2, 2), f32(3)),
        given={1: _SPATIAL.astype(np.int32), 2: _HEAVY},
    ),
    case(CrossEntropy(-1, -1), f32(2, 3), i64(2), f32(3), given={1: np.array([1, 2]), 2: _HEAVY}),
    case(CrossEntropy(-1, -100, 0.1), f32(2, 3), f32(2, 3), f32(3), given={1: _SHARES, 2: _HEAVY}),
    case(CrossEntropy(), f16(5, 6), i64(5), given={1: _LABELS}, tolerance=1e-2),
    case(NegativeLogLikelihood(1, 7), f32(2, 3, 2, 2), i64(2, 2, 2), f32(3), given={1: _SPATIAL}),
    case(CTC(), *_SEQUENCES, given=_LENGTHS),
    case(CTC(0, True, _NONE), *_SEQUENCES, given={**_LENGTHS, 2: np.array([3, 0])}),
    case(NegativeLogLikelihood(-1, -100, 0.1, _SUM), f32(2, 3), f32(2, 3), given={1: _SHARES}),
]
