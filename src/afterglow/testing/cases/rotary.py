"""Cases of afterglow.ops.rotary."""

from __future__ import annotations

from afterglow.ops.rotary import Rotary
from afterglow.testing.cases.case import bf16, case, f16, f32, f64

CASES = [
    case(Rotary(), f32(5, 3, 8), f32(5, 4), f32(5, 4)),
    case(Rotary(interleaved=True), f32(5, 3, 8), f32(5, 4), f32(5, 4)),
    case(Rotary(), f32(5, 2, 9), f32(5, 3), f32(5, 3)),
    case(Rotary(interleaved=True), f32(5, 2, 9), f32(5, 3), f32(5, 3)),
    case(Rotary(), f32(7, 2, 64), f32(7, 32), f32(7, 32)),
    case(Rotary(interleaved=True), f32(7, 2, 64), f32(7, 32), f32(7, 32)),
    *(case(Rotary(), t(2, 3, 8), t(2, 4), t(2, 4)) for t in (f16, bf16, f64)),
    case(Rotary(), f32(0, 3, 8), f32(0, 4), f32(0, 4)),
]
