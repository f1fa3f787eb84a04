"""Cases of afterglow.ops.normalization."""

from __future__ import annotations

import numpy as np

from afterglow.ops.normalization import LRN, BatchNorm, GroupNorm, LayerNorm, RMSNorm
from afterglow.testing.cases.case import bf16, case, f16, f32, f64

_VARIANCE = np.array([0.5, 2.0, 0.0], np.float32)

CASES = [
    case(BatchNorm(1e-5, 1), f32(2, 3, 4, 5), *[f32(3)] * 4, given={4: _VARIANCE}, tolerance=1e-4),
    case(BatchNorm(1e-3), f32(2, 4, 3), *[f32(3)] * 4, given={4: _VARIANCE}, tolerance=1e-4),
    case(BatchNorm(1e-5, 1), f64(4, 2), *[f64(2)] * 4, low=0.5),
    case(BatchNorm(1e-5, 1), f16(2, 5, 2), *[f16(5)] * 4, low=0.5),
    case(BatchNorm(), f32(0, 3), *[f32(3)] * 4, low=0.5),
    case(LayerNorm(), f32(2, 3, 8), f32(8), f32(8)),
    case(LayerNorm(1, 1e-3), f32(2, 3, 8), f32(3, 8)),
    case(LayerNorm(1, 1e-3), f32(2, 3, 8), None, f32(8)),
    case(LayerNorm(0), f64(2, 3), f64(2, 1)),
    case(LayerNorm(), f16(2, 300), low=-400, high=400),
    case(LayerNorm(), f32(0, 4), f32(4)),
    case(LayerNorm(), f32(5)),
    case(RMSNorm(), f32(2, 3, 8), f32(8)),
    case(RMSNorm(1), f32(2, 3, 8), f32(3, 8)),
    case(RMSNorm(), bf16(2, 64), bf16(64)),
    case(RMSNorm(0), f64(3)),
    case(GroupNorm(2, 1e-5, 1), f32(2, 6, 3, 4), f32(6), f32(6)),
    case(GroupNorm(2), f32(2, 3, 4, 6), f32(6), f32(6)),
    case(GroupNorm(6, 1e-2, 1), f32(2, 6, 5), f32(6), f32(6)),
    case(GroupNorm(1, 1e-5, 1), f32(2, 6), f32(6), f32(6)),
    case(GroupNorm(2, 1e-5, 1), f16(2, 4, 8), f16(4), f16(4)),
    case(LRN(3, 0.2, 0.5, 2.0, 1), f32(2, 5, 3)),
    case(LRN(4), f32(2, 3, 5), high=30),
    case(LRN(5, axis=1), f32(2, 2, 3)),
    case(LRN(1, axis=0), f64(4)),
]
