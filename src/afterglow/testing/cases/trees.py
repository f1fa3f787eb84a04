"""Cases of afterglow.ops.trees and afterglow.ops.coupling."""

from __future__ import annotations

import numpy as np

from afterglow.ops.coupling import PairwiseCoupling
from afterglow.ops.trees import Aggregate, NodeKind, TreeEnsemble
from afterglow.testing.cases.case import case, f16, f32, f64, i64

_NODES = np.array(
    [
        (NodeKind.LESS_EQUAL, 0, 1, 2, 0),
        (NodeKind.GREATER, 1, 3, 4, 1),
        (NodeKind.LEAF, 0, 0, 0, 0),
        (NodeKind.LEAF, 0, 1, 0, 0),
        (NodeKind.LEAF, 0, 2, 0, 0),
        (NodeKind.NOT_EQUAL, 1, 3, 6, 0),
        (NodeKind.EQUAL, 0, 4, 2, 0),
        (NodeKind.LESS, 1, 8, 4, 0),
        (NodeKind.GREATER_EQUAL, 0, 2, 3, 1),
    ]
)
_GIVEN = {
    1: _NODES,
    3: np.array([0, 5, 7, 2]),
    4: np.array([[0, 2], [1, -1], [-1, -1]]),
}
_MISSING = np.array([[np.nan, 0], [0, np.nan], [np.nan, np.nan]], np.float32)
_PAIRS = np.array([[[0, 0.9, 0.6], [0.1, 0, 0.3], [0.4, 0.7, 0]], [[0, 0.5, 0.5]] * 3])

CASES = [
    *(
        case(
            TreeEnsemble(3, aggregate),
            *(x, i64(9, 5), x.with_shape((9,)), i64(4), i64(3, 2), x.with_shape((3, 2))),
            given=_GIVEN,
        )
        for aggregate in Aggregate
        for x in (f32(7, 2), f64(3, 2), f16(4, 2), f32(0, 2))
    ),
    case(
        TreeEnsemble(3),
        *(f32(3, 2), i64(9, 5), f32(9), i64(4), i64(3, 2), f32(3, 2)),
        given={0: _MISSING, **_GIVEN},
    ),
    case(
        TreeEnsemble(1),
        *(f32(2, 1), i64(1, 5), f32(1), i64(0), i64(0, 0), f32(0, 0)),
        given={1: _NODES[2:3]},
    ),
    case(PairwiseCoupling(), f64(2, 3, 3), given={0: _PAIRS}),
    case(PairwiseCoupling(), f32(2, 3, 3), given={0: _PAIRS.astype(np.float32)}, tolerance=1e-4),
    case(PairwiseCoupling(), f32(3, 1, 1)),
    case(PairwiseCoupling(), f32(0, 4, 4)),
]
