"""Cases of afterglow.ops.slopes."""

from __future__ import annotations

from afterglow.ops.slopes import GeluSlope, SwishSlope
from afterglow.testing.cases.case import bf16, case, f16, f32, f64

CASES = [
    case(op, type)
    for op in (GeluSlope(), GeluSlope(approximate=True), SwishSlope(), SwishSlope(1.702))
    for type in (f32(2, 3, 4), f64(), f16(5), bf16(3, 5))
]
