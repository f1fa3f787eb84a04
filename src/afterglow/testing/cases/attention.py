"""Cases of afterglow.ops.attention."""

from __future__ import annotations

import numpy as np

from afterglow.ops.attention import Attention
from afterglow.testing.cases.case import bf16, boolean, case, f16, f32, f64

_ONE_ROW_UNSEEN = np.array([[True, False, True], [False, False, False]])
_INFINITE = np.array([[0, -np.inf, 1], [-np.inf, -np.inf, -np.inf]], np.float32)
_VERY_LOW = np.array([[0, -1e9, 1], [-1e9, -1e9, -1e9]], np.float32)

CASES = [
    case(Attention(0.5), f32(2, 3, 4, 8), f32(2, 3, 5, 8), f32(2, 3, 5, 6)),
    case(Attention(0.5), f32(2, 6, 4, 8), f32(2, 2, 5, 8), f32(2, 2, 5, 8)),
    case(Attention(1.0), f32(1, 4, 2, 3), f32(1, 1, 5, 3), f32(1, 1, 5, 3), f32(5)),
    case(Attention(1.0, causal=True), f32(2, 2, 4, 3), f32(2, 2, 4, 3), f32(2, 2, 4, 3)),
    case(Attention(1.0, causal=True), f32(1, 2, 2, 3), f32(1, 1, 5, 3), f32(1, 1, 5, 3)),
    *(
        case(Attention(0.7), f32(1, 2, 2, 4), f32(1, 2, 3, 4), f32(1, 2, 3, 4), t, given={3: mask})
        for t, mask in (
            (boolean(2, 3), _ONE_ROW_UNSEEN),
            (f32(2, 3), _INFINITE),
            (f32(2, 3), _VERY_LOW),
        )
    ),
    case(
        Attention(0.7, causal=True),
        f32(2, 2, 2, 4),
        f32(2, 2, 3, 4),
        f32(2, 2, 3, 4),
        boolean(2, 1, 1, 3),
    ),
    case(Attention(0.5), f16(1, 2, 3, 4), f16(1, 2, 3, 4), f16(1, 2, 3, 4), f16(3, 3)),
    case(Attention(0.5), bf16(1, 2, 3, 4), bf16(1, 1, 3, 4), bf16(1, 1, 3, 4), boolean(3)),
    case(Attention(0.5), f64(1, 2, 3, 4), f64(1, 2, 3, 4), f64(1, 2, 3, 4), f64(1, 2, 1, 3)),
    case(Attention(0.5), f32(0, 2, 3, 4), f32(0, 2, 3, 4), f32(0, 2, 3, 4)),
    case(Attention(0.5), f32(1, 2, 3, 4), f32(1, 2, 0, 4), f32(1, 2, 0, 5), boolean(1)),
]
