"""Cases of afterglow.ops.norm_gradient."""

from __future__ import annotations

from afterglow.ops.norm_gradient import NormGradient
from afterglow.testing.cases.case import bf16, case, f16, f32, f64

CASES = [
    case(NormGradient(), f32(2, 3), f32(2, 3), f32(3)),
    case(NormGradient(centred=False), f32(2, 3), f32(2, 3), f32(3)),
    case(NormGradient(), f32(2, 5, 9), f32(2, 5, 9)),
    case(NormGradient(0.1, False), f64(4, 7), f64(4, 7)),
    case(NormGradient(0.1), f32(7), f32(7), f32(7)),
    case(NormGradient(), f16(3, 5), f16(3, 5), f16(5), tolerance=2e-3),
    case(NormGradient(), bf16(3, 5), bf16(3, 5), bf16(5), tolerance=2e-2),
    case(NormGradient(), f32(0, 3), f32(0, 3), f32(3)),
]
