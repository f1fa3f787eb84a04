"""Cases of afterglow.ops.random."""

from __future__ import annotations

from afterglow.ops.random import Dropout, RandomUniform
from afterglow.testing.cases.case import case, f16, f32, i64
from afterglow.types import dtype as d

CASES = [
    case(RandomUniform(()), i64()),
    case(RandomUniform((2, 5)), i64()),
    case(RandomUniform((0, 3)), i64()),
    case(RandomUniform((7,), d.f64, seed=2**64 - 1), i64()),
    case(RandomUniform((2, 3, 4), seed=5, stream=1), i64(), low=-9, high=9),
    case(RandomUniform((3, 36), seed=2**63 + 5), i64()),
    case(RandomUniform((2, 2, 68), stream=2), i64(), low=-9, high=9),
    case(RandomUniform((4100,)), i64()),
    case(RandomUniform((2, 34)), i64()),
    case(Dropout(), f32(3, 5)),
    case(Dropout(0.1), f16(4)),
    case(Dropout(0.0), f32(0, 3)),
]
